# SPDX-License-Identifier: Apache-2.0
"""The clients of a superposition's volumes, and their ledgers."""

from collections.abc import Sequence
import contextlib
import dataclasses

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import ledger as ledgers
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import roles
from specreds_cinder.superposition import states
from specreds_cinder.superposition import volume as volumes
from specreds_cinder.superposition.protocol import succession


class Clients(succession.Succession):
    """Finds the clients that have volumes or overlays open, or may wake and write."""

    def observe(self, record: records.Record, *, attended: bool = True) -> roles.Roles:
        """Enter every client that has a volume or its overlay open into the ledgers.

        :param attended: as for :func:`roles.classify`
        :returns: their roles, and those of the other clients in the ledgers
        :raises RecordChanged: another controller is removing the overlays, or the promoted
            version was superposed again: its clients are those of the other superposition
        """
        before = self.reload(record) if record.state in states.DECIDED else record
        seen = self._each(self._look, record.volumes)
        after = self.reload(record)
        if after.state in (states.MERGED, states.ABORTING):
            raise errors.RecordChanged(
                f'superposition {record.id} was ended by another controller meanwhile; look at it '
                f'again')
        # Between two reads without a successor there may have been one, whose backup was seen.
        if after.successor != before.successor or self.successor(after) is not None:
            raise errors.RecordChanged(
                f'superposition {record.id} was superposed again, by {after.successor}')
        classified = roles.classify(record, [clients for looks in seen for clients in looks],
                                    attended=attended)
        for volume, looks in zip(record.volumes, seen, strict=True):
            self._remember(record, volume, looks, classified.backup)
        return classified

    def _classified(self, record: records.Record, *, attended: bool) -> roles.Roles:
        """Observe the clients, for a step that fences all but the backup's.

        :raises OverlayBusy: it is not clear which clients are the backup's
        """
        observed = self.observe(record, attended=attended)
        if observed.unclear:
            raise errors.OverlayBusy(
                f'the overlays of superposition {record.id} are open at '
                f'{errors.named(observed.backup)}, and it is not clear which clients of its '
                f'volumes are those of the same backup: more of them are open', observed.unclear,
                'stop the others, and try again')
        return observed

    def _look(self, volume: records.Volume) -> list[roles.Seen]:
        """Return the clients of each image of the parent version of a volume."""
        # The ledger first: a client that leaves it meanwhile need not be fenced.
        entries = self.ledger.read(volume)
        images = []
        for parent in volume.parents:
            watchers = owners = frozenset[str]()
            with contextlib.suppress(errors.VolumeGone):
                watchers, owners = volumes.watchers_and_owners(self.cluster, parent.ref,
                                                               parent.image_id)
            images.append((watchers, owners))
        # The overlay last: a backup opens it after the images below it, and a client of these is
        # a newcomer unless the overlay has one as well.
        overlay = self._visible(volumes.watchers, volume.overlay_ref)
        return [roles.Seen(image=watchers | owners, owners=owners, overlay=overlay, ledger=entries)
                for watchers, owners in images]

    def _remember(self, record: records.Record, volume: records.Volume,
                  looks: Sequence[roles.Seen], backup: frozenset[str]) -> None:
        """Enter the clients of a volume into its ledger, unless they are in it.

        A fenced client was entered before, and is not entered again after it has left. One of
        which an earlier look could not tell whether it was the backup's is entered as such, as
        soon as a look can.
        """
        ledger = looks[0].ledger
        seen = frozenset().union(*(look.image | look.overlay for look in looks))
        clear = {client for client in (seen & backup) - set(record.fenced)
                 if ledger.get(client) == ledgers.Entry(ledgers.PRIMARY, record.id)}
        if clear:
            self.ledger.enter(volume, clear, ledgers.Entry(ledgers.BACKUP, record.id),
                              replace=True)
        new = seen - ledger.keys() - set(record.fenced)
        for role, clients in ((ledgers.BACKUP, new & backup), (ledgers.PRIMARY, new - backup)):
            if clients:
                self.ledger.enter(volume, clients, ledgers.Entry(role, record.id))

    def _entries(self, record: records.Record) -> ledgers.Entries:
        """Return the ledgers of all volumes of a record."""
        return {client: entry for entries in self._each(self.ledger.read, record.volumes)
                for client, entry in entries.items()}

    def _unlatch(self, record: records.Record) -> None:
        """Let librbd lock the volumes again, for good.

        Latches of a predecessor stay as they are, and so do those of the overlays below a promoted
        one, until these are removed: a server that was handed such an overlay is a fenced one's.
        """
        first = -1 if record.outcome == states.PROMOTED else 0
        self._each(lambda parent: self.latch.open(parent, record.id), [
            parent for volume in record.volumes for parent in volume.parents[first:]])

    def _fencing(self, record: records.Record, clients: tuple[str, ...]) -> records.Record:
        """Record the clients that are about to be fenced."""
        return self.store.swap(record, dataclasses.replace(
            record, fenced=clients, updated_at=records.now()))
