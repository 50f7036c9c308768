# SPDX-License-Identifier: Apache-2.0
"""The end of a superposition: its overlays, claims, fence and record go."""

import dataclasses

from specreds_cinder.superposition import address
from specreds_cinder.superposition import backup as backups
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import overlay
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import roles
from specreds_cinder.superposition import states
from specreds_cinder.superposition.protocol import clients


class Ending(clients.Clients):
    """Decides for the primary, and removes what a decided superposition leaves behind."""

    def abort(self, record: records.Record,
              progress: backups.Progress | None = None) -> None:
        """Decide for the primary: drop the overlays and the record.

        A fence that a cut-off collapse left behind is taken back. Clients that noticed it stay
        dead all the same: look after the primary then.

        :param progress: called with the objects of an overlay removed so far, and all of them
        :raises Conflict: the backup's version was promoted already
        :raises OverlayBusy: the backup runs, and the settings forbid to shut it out
        """
        record = self.reload(record)
        if record.state in states.DECIDED:
            raise errors.Conflict(
                f'superposition {record.id} is {record.state}: the version of the backup is the '
                f'real one, it can only be merged', record.state)
        self._drop(record, states.ABORTED, progress)

    def _drop(self, record: records.Record, outcome: str,
              progress: backups.Progress | None = None) -> None:
        if record.state != states.ABORTING:
            record = self.store.swap(record, record.moved(states.ABORTING, outcome=outcome))
        self._unfence(record)
        if self.settings.evict_backup:
            self._evict(record)
        self._clean(record, progress, evict=self.settings.evict_backup)

    def _evict(self, record: records.Record) -> None:
        """Shut out a backup that has died, or hangs, from the volumes, too.

        It has them open below its overlays, by clients of its own; as long as Ceph takes these
        for alive, nobody could tell which host runs the primary. Nobody is shut out who is on a
        host of the primary's.
        """
        backup = self._users([volume.overlay_ref for volume in record.volumes])
        hosts = {address.host(client) for client in backup}
        hosts -= {address.host(client) for client in record.clients}
        if hosts and record.clients:
            self.fence.close(client for client in self._users(
                [volume.ref for volume in record.volumes]) if address.host(client) in hosts)

    def _unfence(self, record: records.Record) -> None:
        if record.outcome in (states.ABORTED, states.DIRTY) and record.fenced:
            self.fence.open(roles.living(record, self._entries(record)))

    def _unfence_lost(self, record: records.Record) -> None:
        """Take back the fence of a record that another controller has decided, or ended.

        One that has ended says nothing any more, but the ledgers do: who was fenced for good has
        left them. Where a volume is in another superposition by now, that one decides.
        """
        try:
            self._unfence(dataclasses.replace(
                record, outcome=self.reload(record).outcome))
        except errors.NotSuperposed:
            if not any(self.store.claimed(volume.ref.home, volume.image_id)
                       for volume in record.volumes):
                entries = self._entries(record)
                self.fence.open(client for client in roles.living(record, entries)
                                if client in entries)

    def _clean(self, record: records.Record, progress: backups.Progress | None = None, *,
               evict: bool) -> None:
        """Remove everything that a decided superposition leaves behind; its record last."""
        shut_out = self.fence if evict else None
        self._each(lambda volume: overlay.remove(self.cluster, volume, shut_out, progress),
                   record.volumes)
        self._settle(record)
        self._each(lambda volume: self.store.release(volume, record.id), record.volumes)
        # Again: a controller that was collapsing when we decided may have fenced since. From here
        # on it finds no record and fences nothing.
        self._unfence(record)
        self.store.delete(record)

    def _settle(self, record: records.Record) -> None:
        """Let clients leave the ledgers that this superposition has fenced for good."""
        if record.outcome not in (states.PROMOTED, states.LATE_DIRTY) or not record.fenced:
            return
        proven = self.fence.remaining().keys() & set(record.fenced)
        self._each(lambda volume: self.ledger.leave(volume, proven), record.volumes)
