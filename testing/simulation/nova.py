# SPDX-License-Identifier: Apache-2.0
"""The Nova of a fake cloud: crashes, stops, reboots and evacuations of servers, and backups."""

from specreds_cinder.superposition.truth import states
from specreds_nova.engine import model
from testing.simulation import cinder
from testing.simulation import parts

# Seconds after which Nova marks a server without a domain as stopped.
SYNC = 15.0
# Seconds after which Nova's conductor gives up to wait for its scheduler.
_CONDUCTOR = 60.0
# Seconds for which a host is heard, after which every engine knows that.
_KNOWN = 20.0
# Seconds in which a nova-compute detaches and attaches the volumes of an evacuated server.
_REBUILD = (0.2, 2.0)


class Nova(cinder.Cinder):
    """The servers as Nova and its plug-in treat them."""

    def crash(self, name: str) -> None:
        """Crash the domain of a server; its host reports that."""
        server = self.servers[name]
        if server.primary is None or not self.hosts[server.primary.host].alive:
            return
        server.primary.runs = False
        host = server.primary.host
        self.crashes.append((host, name, self.hub.now()))
        self._spawn(lambda: self._sync(server, host), SYNC)

    def _sync(self, server: parts.Server, host: str) -> None:
        """Have the nova-compute of a host mark its server as stopped if it does not run."""
        if server.host != host or not self.hosts[host].reached:
            return
        runs = server.primary is not None and server.primary.runs
        if not runs and server.status == 'ACTIVE' and server.task is None:
            server.status, server.marked_at = 'SHUTOFF', self.hub.now()

    def stop(self, name: str) -> None:
        """Stop a server for its owner."""
        server = self.servers[name]

        def act() -> None:
            while server.task is not None:
                self.hub.sleep(0.5)
            server.status, server.stopped_by_owner = 'SHUTOFF', True
            server.stopped_at = self.hub.now()
            if server.primary is not None:
                server.primary.runs = False
        self._spawn(act)

    def delete(self, name: str) -> None:
        """Delete a server for its owner: at once if its host is down for Nova, else by its host.

        A host that has died does it when it is back.
        """
        server = self.servers[name]
        if self.hosts[server.host].forced_down:
            del self.servers[name]
        elif server.task != 'deleting':
            server.task = 'deleting'
            self._spawn(lambda: self._do_deletion(server))

    def _do_deletion(self, server: parts.Server) -> None:
        """Have the host of a server delete it, as soon as that can be reached."""
        host = self.hosts[server.host]
        while server.name in self.servers:
            if host.alive and host.reached:
                if server.primary is not None:
                    server.primary.runs = False
                del self.servers[server.name]
            self.hub.sleep(1.0)

    def attach(self, name: str) -> None:
        """Attach another volume to a server, by the nova-compute of its host."""
        server = self.servers[name]
        host = self.hosts[server.host]

        def act() -> None:
            if (server.task is None and self._waited(host) and server.host == host.name
                    and self.admits(server)):
                server.attached.append(f'volume-{next(self._count)}')
        self._spawn(act)

    def plug(self, name: str) -> None:
        """Attach another port to a server, by the nova-compute of its host."""
        server = self.servers[name]
        host = self.hosts[server.host]

        def act() -> None:
            if server.task is None and self._waited(host) and server.host == host.name:
                server.macs += (f'fa:16:3e:00:01:{next(self._count):02x}',)
        self._spawn(act)

    def detach_port(self, name: str) -> None:
        """Detach a port from a server: the request stays in the queue of its host."""
        server = self.servers[name]
        host = self.hosts[server.host]

        def act() -> None:
            # Otherwise the plug-in of the host refuses it.
            if self._left_there(server, host):
                server.macs = server.macs[:-1]
        if server.task is None and server.status in ('ACTIVE', 'PAUSED', 'SHUTOFF'):
            self._spawn(act)

    def _left_there(self, server: parts.Server, host: parts.Host) -> bool:
        """Wait until a host takes a request from its queue, and return if its server is there."""
        while not host.reached:
            self.hub.sleep(1.0)
        return server.host == host.name and server.task is None

    def unplug(self, name: str) -> None:
        """Delete a port of a server in Neutron, for which no host is needed."""
        server = self.servers[name]
        server.macs = server.macs[:-1]

    def resize(self, name: str) -> None:
        """Begin to resize a server: the request stays in the queue of its host if that is dead.

        ``API.resize`` takes a server that is active or stopped, and has no task.
        """
        server = self.servers[name]
        if server.task is None and server.status in ('ACTIVE', 'SHUTOFF'):
            other = self._room(server.host)
            server.status, server.task = 'RESIZE', 'resize_prep'
            server.moving = None if other is None else (other, False)

    def confirm(self, name: str) -> None:
        """Confirm a resize: ``API.confirm_resize`` asks the server's former host, which is up.

        That host cannot end a server that Nova is at work on by then, and puts it into ERROR
        (``ComputeManager.confirm_resize``). The evacuation fails, too, as it has lost its task.
        """
        server = self.servers[name]

        def act() -> None:
            self.hub.latency(0.5, 5.0)
            server.moving, server.confirming = None, False
            if server.task is None:
                server.status = 'ACTIVE'
            elif server.task != 'deleting':
                server.status, server.task, server.target = 'ERROR', None, None
                server.evacuations += 1
        if (server.status, server.task) == ('VERIFY_RESIZE', None) and server.moving and (
                self.hosts[server.moving[0]].reached) and not server.confirming:
            server.confirming = True
            self._spawn(act)

    def revert(self, name: str) -> None:
        """Revert the resize of a server: the request stays in the queue of its host.

        ``API.revert_resize`` takes no move that a user has confirmed: it is not finished any more.
        """
        server = self.servers[name]
        if (server.status, server.task) == ('VERIFY_RESIZE', None) and not server.confirming:
            server.status, server.task = 'REVERT_RESIZE', 'resize_reverting'

    def unprotect(self, name: str) -> None:
        """Change the metadata of a server, for which no host is needed."""
        self.servers[name].metadata['specreds:protect'] = 'false'

    def give_up_move(self, name: str) -> None:
        """End a live migration in the conductor, which has waited for the source's answer."""
        server = self.servers[name]
        server.status, server.task, server.moving = 'ACTIVE', None, None

    def evacuate(self, server: parts.Server, host: str | None) -> None:
        """Begin Nova's evacuation of a server."""
        self._check_destination(server, host)
        server.task, server.target, server.claimed = 'rebuilding', host or '', False
        server.noted = self.hub.now()
        server.evacuations += 1
        number = server.evacuations
        self._spawn(lambda: self._evacuate(server, host, number))

    def _check_destination(self, server: parts.Server, wanted: str | None) -> None:
        """Record a request to evacuate a server to a host, while its backup serves on another one.

        A host that is not heard, or not for long, may have failed for all that engines know.
        """
        for host in self.hosts.values():
            heard = host.alive and host.reached and host.beats and host.storage and (
                self.hub.now() - host.since > _KNOWN)
            if heard and host.name not in (wanted, server.host) and any(
                    backup.server == server.name and backup.phase == 'promoted' and backup.runs
                    for backup in host.backups.values()):
                self.hub.failures.append(parts.Wrong(
                    f'{server.name} serves on {host.name}, and is to be evacuated to {wanted}'))

    def _evacuate(self, server: parts.Server, wanted: str | None, number: int) -> None:
        self.hub.latency(0.5, 3.0)
        if not self._evacuating(server, number) or self._loses(server, number):
            return
        target = wanted or self._room(server.host)
        if target is None:
            server.task, server.target, server.status = None, None, 'ERROR'
            return
        server.target, server.claimed = target, False
        host = self.hosts[target]
        if not self._waited(host) or not self._evacuating(server, number):
            return
        begun, server.claimed, server.noted = host.service, True, self.hub.now()
        self.hub.latency(*_REBUILD)
        if not self._waited(host, begun) or not self._evacuating(server, number):
            return
        if server.unbound:
            # ``ComputeManager._error_out_instance_on_exception``
            server.unbound -= 1
            server.task, server.target, server.status = None, None, 'ERROR'
            return
        adopted = self._promoted_backup(server, host)
        if adopted is None:
            until = self.hub.now() + 120.0
            while server.superposition in self.superpositions:
                if self.hub.now() > until:
                    server.task, server.target, server.status = None, None, 'ERROR'
                    return
                self.hub.sleep(1.0)
            if (not self._waited(host, begun) or server.task is None
                    or not self._evacuating(server, number)):
                return
            if not self._attach_volumes(server, host):
                return
            self._connect(server, target)
            if server.status not in ('ACTIVE', 'SHUTOFF') and not server.stopped_by_owner:
                server.failed = f'it was evacuated while it was {server.status}'
        elif not self._attach_volumes(server, host):
            return
        if server.task is None:
            # The server was reset meanwhile.
            return
        stopped = server.status == 'SHUTOFF'
        server.task, server.status = None, 'ACTIVE'
        if not self._finished(server, host, begun, number):
            return
        if adopted is not None:
            adopted.phase = 'adopted'
        server.host, server.target = target, None
        if stopped and server.primary is not None:
            # Nova stops a server again that it evacuates while it is stopped.
            server.status, server.primary.runs = 'SHUTOFF', False

    def _attach_volumes(self, server: parts.Server, host: parts.Host) -> bool:
        """Attach the volumes of an evacuated server, or put it into ERROR if Cinder refuses."""
        for name, volume in server.states.items():
            record = self.superpositions.get(server.superposition or '')
            if record is not None and record.state in states.DECIDED:
                # The plug-in in Cinder's API ends what was begun since the decision.
                volume.restore()
            if not volume.attach(plugged=host.plugged):
                server.task, server.target, server.status = None, None, 'ERROR'
                server.fault = f'Nova cannot attach volume {name}, which is {volume.status}'
                return False
        return True

    def detach(self, name: str) -> None:
        """Begin to detach a volume for a user; the request stays in the queue of the host."""
        server = self.servers.get(name)
        # Nova's API takes no such request while it works on the server.
        if server is None or server.task is not None:
            return
        volume, host = next(iter(server.states.values())), self.hosts[server.host]

        def act() -> None:
            # The guest of a server that is there does not answer.
            if not self._left_there(server, host):
                volume.keep()
        if volume.detach():
            self._spawn(act)

    def back_up(self, name: str) -> None:
        """Begin to back up a volume for a user."""
        server = self.servers.get(name)
        if server is not None:
            next(iter(server.states.values())).back_up(
                superposed=server.superposition in self.superpositions)

    def end_jobs(self, name: str) -> None:
        """Let the jobs of Cinder end that work on the volumes of a server."""
        for volume in self.servers[name].states.values() if name in self.servers else ():
            volume.end_jobs()

    def _loses(self, server: parts.Server, number: int) -> bool:
        """Return whether Nova's conductor loses an evacuation, which it may give up later."""
        if server.lost > 0:
            server.lost -= 1
            self.hub.sleep(_CONDUCTOR)
            server.given_up = number
            return True
        if server.lost < 0:
            server.lost += 1
            return True
        return False

    def _finished(self, server: parts.Server, host: parts.Host, begun: int, number: int) -> bool:
        """Wait until the resource tracker of a host is free, and return whether Nova notes it."""
        if not server.finishing:
            return True
        self.hub.sleep(server.finishing)
        if not self._waited(host, begun):
            return False
        return self._evacuating(server, number)

    def _evacuating(self, server: parts.Server, number: int) -> bool:
        """Return whether an evacuation is the latest one of a server that is not deleted."""
        return server.name in self.servers and server.evacuations == number

    def _promoted_backup(self, server: parts.Server, host: parts.Host) -> parts.Backup | None:
        """Return the backup that an evacuation adopts, whose box it opens if that is shut."""
        for backup in host.backups.values():
            if backup.server != server.name or not backup.runs:
                continue
            record = self.superpositions.get(backup.superposition)
            if (backup.phase in ('running', 'hardened') and record is not None
                    and record.state in states.DECIDED):
                backup.durable = True
                self.connect(backup)
            if backup.phase == 'promoted':
                return backup
        return None

    def _waited(self, host: parts.Host, begun: int | None = None) -> bool:
        """Wait until a host is reachable, and return False if it has died.

        :param begun: number of the start of its nova-compute that is at work already
        """
        del begun
        while host.alive and not host.reached:
            self.hub.sleep(1.0)
        return host.alive

    def _room(self, source: str) -> str | None:
        return next(iter(self.candidates(source)), None)

    def candidates(self, source: str) -> list[str]:
        """Return the hosts that Nova would choose among, dead ones included."""
        count = {name: sum(server.host == name for server in self.servers.values())
                 for name in self.hosts}
        return [host.name for host in self.hosts.values()
                if host.name != source and not host.forced_down and count[host.name] < host.room]

    def reboot(self, server: parts.Server) -> None:
        """Start a server again on its host."""
        if server.stopped_by_owner:
            raise parts.Wrong(f'{server.name} was stopped by its owner')
        server.task = 'rebooting'

        def act() -> None:
            self.hub.latency(1.0, 3.0)
            if self.hosts[server.host].alive and server.task == 'rebooting':
                if server.primary is not None:
                    server.primary.runs = False
                server.connect(server.host)
                server.task, server.status = None, 'ACTIVE'
        self._spawn(act)

    def view(self, server: parts.Server) -> model.Server:
        """Return a server as Nova describes it."""
        return model.Server(
            id=server.name, name=server.name, project='p', host=server.host,
            status=server.status, task=server.task, locked=False, zone=None,
            flavor={'vcpus': 1, 'ram': 1, 'disk': 0}, volumes=server.volumes(),
            metadata=server.metadata, macs=server.macs)

    # Backups

    def start_backup(self, host: parts.Host, backup: parts.Backup) -> None:
        """Start the domain of a backup."""
        for other in self.hosts.values():
            for rival in other.backups.values():
                if (rival is not backup and rival.superposition == backup.superposition
                        and rival.runs):
                    raise parts.Wrong(f'{backup.server}: two backups have the same disks open')
        backup.phase, backup.runs, backup.began = 'running', host.alive, self.hub.now()

    def connect(self, backup: parts.Backup) -> None:
        """Open the box of a backup."""
        server = self.servers.get(backup.server)
        if server is None or backup.phase in ('promoted', 'adopted', 'merged'):
            return
        if not backup.durable:
            raise parts.Wrong(f'{server.name}: the backup is not durable')
        backup.phase = 'promoted'
        self._connect(server, backup.host)
