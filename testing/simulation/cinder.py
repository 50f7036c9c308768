# SPDX-License-Identifier: Apache-2.0
"""The Cinder of a fake cloud: superpositions, their decisions, merges and fences."""

from specreds_cinder.superposition.truth import states
from testing.simulation import hub as hubs
from testing.simulation import machines
from testing.simulation import parts

# Seconds after which Ceph forgets a client that has died.
_WATCH = 30.0


class Cinder(machines.Machines):
    """The volumes of the servers.

    :cvar sweep: seconds that a sweep takes at most
    :ivar copying: seconds that a merge takes at least
    """

    sweep = 0.05
    copying = 0.0

    def __init__(self, hub: hubs.Hub) -> None:
        super().__init__(hub)
        self._collapses: dict[str, hubs.Actor] = {}

    def admits(self, server: parts.Server) -> bool:
        """Return whether another volume may be attached to a server: none is left undecided."""
        record = self.superpositions.get(server.superposition or '')
        return record is None or record.state in states.DECIDED

    def superpose(self, server_id: str, reason: str, volumes: tuple[str, ...],
                  dead_host: str | None = None) -> str:
        """Superpose the volumes of a server, and return the id of the superposition.

        :param dead_host: a host that is said to be dead: its copies are fenced first
        """
        server = self.servers[server_id]
        if dead_host is not None:
            self._seal(server, dead_host)
        record = parts.Superposition(f'superposition-{next(self._count)}', server_id, reason,
                                     base=server.primary, volumes=volumes)
        self.superpositions[record.id] = record
        server.superposition = record.id
        return record.id

    def _seal(self, server: parts.Server, host: str) -> None:
        """Fence the copies of a server on a host that is said to be dead."""
        for copy in server.copies:
            if copy.host == host:
                copy.fenced = True

    def collapse(self, superposition: str) -> hubs.Actor:
        """Begin or continue a decision, which does not depend on its caller."""
        going = self._collapses.get(superposition)
        if going is None or going.over:
            going = self._spawn(lambda: self._decide(superposition))
            self._collapses[superposition] = going
        return going

    def fence(self, server_id: str, host: str) -> int:
        """Fence the copies of a server on a host."""
        fenced = [copy for copy in self.servers[server_id].copies
                  if copy.host == host and copy.runs]
        self.hub.latency(0.05, 0.5)
        for copy in fenced:
            copy.fenced = True
        self._restore(self.servers.get(server_id))
        return len(fenced)

    @staticmethod
    def _restore(server: parts.Server | None) -> None:
        """Restore the volumes of a server, whose clients are fenced."""
        for volume in server.states.values() if server is not None else ():
            volume.restore()

    def _decide(self, superposition: str) -> str:
        record = self.superpositions.get(superposition)
        if record is None or record.outcome in ('dirty', 'late-dirty', 'unproven'):
            return 'gone'
        if record.state in states.DECIDED:
            return 'promoted'
        record.state = 'collapsing'
        self.hub.latency(0.01, self.sweep)
        if record.dirty:
            return self._drop(record, 'dirty')
        server = self.servers.get(record.server)
        if server is not None and server.changed:
            server.changed -= 1
            return self._drop(record, 'unproven')
        self.hub.latency(0.05, 0.6)
        self._fence(server, record)
        self.hub.latency(0.01, self.sweep)
        if record.dirty:
            return self._drop(record, 'late-dirty')
        record.state, record.outcome = 'promoted', 'promoted'
        record.decided = self.hub.now()
        self._check_volumes(record)
        self._restore(self.servers.get(record.server))
        self._promoted(self.servers.get(record.server), record)
        self._spawn(lambda: self._merge(record))
        return 'promoted'

    def _fence(self, server: parts.Server | None, record: parts.Superposition) -> None:
        """Fence the first version."""
        if record.base is not None:
            if server is not None and server.late and record.base.runs:
                server.late -= 1
                record.dirty = True
            record.base.fenced = True

    def _check_volumes(self, record: parts.Superposition) -> None:
        """Raise an error if a backup that is promoted lacks a volume of its server.

        Nova plugs those that are attached later into the backup when it adopts it.
        """
        server = self.servers.get(record.server)
        if server is not None and record.volumes != server.volumes():
            raise parts.Wrong(f'{server.name}: the backup has {record.volumes}, not '
                              f'{server.volumes()}')

    def _promoted(self, server: parts.Server | None, record: parts.Superposition) -> None:
        """Check the promotion of a superposition. Worlds that know the guests' data do."""

    def _drop(self, record: parts.Superposition, outcome: str) -> str:
        record.outcome = outcome
        self._forget(record)
        return outcome

    def _forget(self, record: parts.Superposition) -> None:
        del self.superpositions[record.id]
        server = self.servers.get(record.server)
        if server is not None and server.superposition == record.id:
            server.superposition = None

    def drop(self, superposition: str) -> bool:
        """Drop a superposition, and return whether that was allowed."""
        record = self.superpositions.get(superposition)
        if record is None:
            return True
        if record.state != 'superposed':
            return False
        self._drop(record, 'aborted')
        return True

    def _merge(self, record: parts.Superposition) -> None:
        """Let the host of the backup merge, or Cinder when no host has the overlay open.

        The host copies from the promotion on, and ends the merge when Nova has the server there.
        """
        unused = copied = None
        while True:
            self.hub.sleep(1.0)
            server = self.servers.get(record.server)
            opener = self._opener(record)
            if server is None or (opener is None and unused is not None
                                  and self.hub.now() - unused > _WATCH):
                self._fence_users(record)
                break
            if opener is None:
                unused = self.hub.now() if unused is None else unused
                continue
            unused = None
            if record.state == 'promoted' and self._serves(record):
                record.state = 'merging'
                copied = self.hub.now() + max(self.copying, self.hub.random.uniform(0.5, 4.0))
            if (copied is not None and self.hub.now() >= copied
                    and server.host == opener and server.task is None):
                break
        record.state = 'merged'
        self._forget(record)

    def _fence_users(self, record: parts.Superposition) -> None:
        """Fence the clients that have the second version open, before it is merged."""

    def _serves(self, record: parts.Superposition) -> bool:
        """Return whether a host has promoted the backup."""
        return any(backup.superposition == record.id and backup.phase in ('promoted', 'adopted')
                   for host in self.hosts.values() for backup in host.backups.values())

    def _opener(self, record: parts.Superposition) -> str | None:
        """Return the host that has the second version open."""
        for host in self.hosts.values():
            for backup in host.backups.values():
                if backup.superposition == record.id and backup.runs:
                    return host.name
        return None
