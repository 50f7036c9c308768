# SPDX-License-Identifier: Apache-2.0
"""The clients of a superposition's volumes, and their ledgers."""

import dataclasses
import functools
import operator

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import ledger as ledgers
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import roles
from specreds_cinder.superposition import states
from specreds_cinder.superposition.protocol import base


class Clients(base.Base):
    """Knows who has the volumes and overlays of a superposition open, or may wake and write."""

    def observe(self, record: records.Record, *, attended: bool = True) -> roles.Roles:
        """Enter every client that has a volume or its overlay open into the ledgers.

        :param attended: as for :func:`roles.classify`
        :returns: what each of them is, and who else is in the ledgers
        :raises RecordChanged: another controller is removing the overlays
        """
        seen = self._each(self._look, record.volumes)
        if self.reload(record).state in (states.MERGED, states.ABORTING):
            # Whoever removes an overlay has it open: a controller, which nobody must ever fence.
            raise errors.RecordChanged(
                f'superposition {record.id} was ended by another controller meanwhile; look at it '
                f'again')
        found = roles.classify(record, functools.reduce(operator.or_, seen), attended=attended)
        for volume, one in zip(record.volumes, seen, strict=True):
            self._remember(record, volume, one, found.backup)
        return found

    def _look(self, volume: records.Volume) -> roles.Seen:
        # The ledger first: whoever leaves it meanwhile is none to be fenced.
        return roles.Seen(ledger=self.ledger.read(volume), image=self._users([volume.ref]),
                          overlay=self._users([volume.overlay_ref]))

    def _remember(self, record: records.Record, volume: records.Volume, seen: roles.Seen,
                  backup: frozenset[str]) -> None:
        """Enter those clients of a volume into its ledger that are not in it.

        Who is fenced was entered before, and is not entered again after having left.
        """
        new = (seen.image | seen.overlay) - seen.ledger.keys() - set(record.fenced)
        for role, clients in ((ledgers.BACKUP, new & backup), (ledgers.PRIMARY, new - backup)):
            if clients:
                self.ledger.enter(volume, clients, ledgers.Entry(role, record.id))

    def _entries(self, record: records.Record) -> ledgers.Entries:
        """Return the ledgers of all volumes of a record."""
        return {client: entry for entries in self._each(self.ledger.read, record.volumes)
                for client, entry in entries.items()}

    def _fencing(self, record: records.Record, clients: tuple[str, ...]) -> records.Record:
        """Note whom we are about to fence."""
        return self.store.swap(record, dataclasses.replace(
            record, fenced=clients, changed_at=records.now()))
