# SPDX-License-Identifier: Apache-2.0
"""The roles of clients: primary, backup, and those that a decision has to fence."""

from collections.abc import Sequence
import dataclasses

from specreds_cinder.superposition.ceph import address
from specreds_cinder.superposition.exclusion import ledger as ledgers
from specreds_cinder.superposition.truth import record as records


@dataclasses.dataclass(frozen=True)
class Seen:
    """The clients of one volume at one moment.

    :param image: clients that watch the image or own its lock
    :param overlay: clients that watch the overlay
    :param ledger: the ledger as it was before this look
    :param owners: the clients of ``image`` that own its lock
    """

    image: frozenset[str]
    overlay: frozenset[str]
    ledger: ledgers.Entries
    owners: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class Roles:
    """The clients of a superposition's volumes by what they are.

    :param primary: clients that had a volume open at the time of ``super``
    :param backup: clients that have an overlay open, and those through which the same QEMU has the
        volume open below it: QEMU opens a backing image as a writer would
    :param newcomers: clients that have opened a volume since, and are not the backup's
    :param silent: clients in the ledger that are none of these: they are not visible, and may
        wake and write
    :param unclear: clients of which some are the backup's, and others newcomers
    """

    primary: frozenset[str]
    backup: frozenset[str]
    newcomers: frozenset[str]
    silent: frozenset[str]
    unclear: frozenset[str] = frozenset()

    @property
    def fenced(self) -> frozenset[str]:
        """Return the clients whose writes a promotion has to refuse."""
        return self.primary | self.newcomers | self.silent


def classify(record: records.Record, seen: Sequence[Seen], *, attended: bool) -> Roles:
    """Return the role of every client that was seen, or is in a ledger.

    A client that the ledger knows from an earlier superposition is never taken for the backup: it
    was there before this backup was started.

    :param seen: the clients of each volume
    :param attended: the caller has the backup in hand, so that a client of it that cannot be seen
        at the moment is not silent
    """
    entries = {client: entry for volume in seen for client, entry in volume.ledger.items()}
    noted = frozenset(client for client, entry in entries.items()
                      if entry == ledgers.Entry(ledgers.BACKUP, record.id))
    earlier = frozenset(client for client, entry in entries.items()
                        if entry.superposition != record.id)
    image = frozenset().union(*(volume.image for volume in seen))
    backup = frozenset().union(*(volume.overlay for volume in seen))
    unclear: frozenset[str] = frozenset()
    for volume in seen:
        below, doubtful = _below(volume, volume.image - record.clients - earlier, noted)
        backup |= below
        unclear |= doubtful
    if attended:
        backup |= image & noted
    unclear -= backup
    newcomers = image - record.clients - backup - unclear
    known = record.clients | backup | newcomers | unclear
    if attended:
        known |= noted
    return Roles(record.clients, backup, newcomers, frozenset(entries) - known, unclear)


def _below(volume: Seen, candidates: frozenset[str], noted: frozenset[str]
           ) -> tuple[frozenset[str], frozenset[str]]:
    """Return the clients through which the QEMU of a backup has a volume open below its overlay.

    QEMU opens both images of a disk, each by a client of its own, so there are as many of these
    clients as of the overlay's. An address names a host neither surely nor alone: a host may have
    several, and hosts behind one translator share one. It counts only where the numbers agree.

    :param candidates: the clients of the image that may be the backup's
    :param noted: the clients that were the backup's at an earlier look
    :returns: them, and the clients that may or may not be the backup's
    """
    count = len(volume.overlay)
    hosts = {address.host(client) for client in volume.overlay}
    near = frozenset(client for client in candidates if address.host(client) in hosts)
    if len(candidates) <= count:
        # Behind the latch, a client that does not own the lock cannot write.
        return near | (candidates - volume.owners), frozenset()
    if len(candidates & noted) == count:
        return candidates & noted, frozenset()
    if len(near) == count:
        return near, frozenset()
    return frozenset(), candidates


def living(record: records.Record, ledger: ledgers.Entries) -> frozenset[str]:
    """Return the fenced clients that may live on after a decision for the primary.

    Clients that are in the ledger from an earlier superposition, and did not have a volume open at
    the time of ``super``, stay fenced: an earlier decision may rely on their fence.
    """
    return frozenset(
        client for client in record.fenced if client in record.clients
        or client not in ledger or ledger[client].superposition == record.id)
