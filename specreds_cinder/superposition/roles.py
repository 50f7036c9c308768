# SPDX-License-Identifier: Apache-2.0
"""The roles of clients: primary, backup, and those that a decision has to fence."""

import dataclasses

from specreds_cinder.superposition import address
from specreds_cinder.superposition import ledger as ledgers
from specreds_cinder.superposition import record as records


@dataclasses.dataclass(frozen=True)
class Seen:
    """The clients of one volume, or of several, at one moment.

    :param image: clients that watch the image or own its lock
    :param overlay: clients that watch the overlay
    :param ledger: the ledger as it was before this look
    """

    image: frozenset[str]
    overlay: frozenset[str]
    ledger: ledgers.Entries

    def __or__(self, other: 'Seen') -> 'Seen':
        return Seen(self.image | other.image, self.overlay | other.overlay,
                    {**self.ledger, **other.ledger})


@dataclasses.dataclass(frozen=True)
class Roles:
    """The clients of a superposition's volumes by what they are.

    :param primary: clients that had a volume open at the time of ``super``
    :param backup: clients that have an overlay open, and those of the same hosts that have a
        volume open below it: QEMU opens a backing image as a writer would
    :param newcomers: clients that have opened a volume since, and are not the backup's
    :param silent: clients in the ledger that are none of these: they are not visible, and may
        wake and write
    """

    primary: frozenset[str]
    backup: frozenset[str]
    newcomers: frozenset[str]
    silent: frozenset[str]

    @property
    def fenced(self) -> frozenset[str]:
        """Return the clients whose writes a promotion has to refuse."""
        return self.primary | self.newcomers | self.silent


def classify(record: records.Record, seen: Seen, *, attended: bool) -> Roles:
    """Return the role of every client that was seen, or is in the ledger.

    A client that the ledger knows from an earlier superposition is never taken for the backup
    because of its host: it was there before this backup was started.

    :param attended: the caller has the backup in hand, so that a client of it that cannot be seen
        at the moment is not silent
    """
    earlier = frozenset(client for client, entry in seen.ledger.items()
                        if entry.superposition != record.id)
    hosts = {address.host(client) for client in seen.overlay}
    below = {client for client in seen.image - record.clients - earlier
             if address.host(client) in hosts}
    backup = seen.overlay | below
    newcomers = seen.image - record.clients - backup
    known = record.clients | backup | newcomers
    if attended:
        known |= {client for client, entry in seen.ledger.items()
                  if entry == ledgers.Entry(ledgers.BACKUP, record.id)}
    return Roles(record.clients, backup, newcomers, frozenset(seen.ledger) - known)


def living(record: records.Record, ledger: ledgers.Entries) -> frozenset[str]:
    """Return the fenced clients that may live on after a decision for the primary.

    Clients that are in the ledger from an earlier superposition, and did not have a volume open at
    the time of ``super``, stay fenced: an earlier decision may rely on their fence.
    """
    return frozenset(
        client for client in record.fenced if client in record.clients
        or client not in ledger or ledger[client].superposition == record.id)
