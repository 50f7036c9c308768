# SPDX-License-Identifier: Apache-2.0
"""The clients of a superposition's volumes, and their ledgers."""

import contextlib
import dataclasses

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.exclusion import ledger as ledgers
from specreds_cinder.superposition.exclusion import roles
from specreds_cinder.superposition.steps import base
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states


def observe(site: base.Site, record: records.Record, *, attended: bool = True) -> roles.Roles:
    """Enter every client that has a volume or its overlay open into the ledgers.

    :param attended: as for :func:`roles.classify`
    :returns: their roles, and the roles of the other clients in the ledgers
    :raises RecordChanged: another controller is removing the overlays
    """
    try:
        seen = site.each(lambda volume: _look(site, volume), record.volumes)
    except errors.PoolGone:
        # Without one of its volumes, an undecided superposition proves nothing.
        if record.state not in states.DECIDED or (there := site.there(record)) == record:
            raise
        return observe(site, there, attended=attended)
    if site.reload(record).state in (states.MERGED, states.ABORTING):
        raise errors.RecordChanged(
            f'superposition {record.id} was ended by another controller meanwhile; look at it '
            f'again')
    classified = roles.classify(record, seen, attended=attended)
    for volume, clients in zip(record.volumes, seen, strict=True):
        _remember(site, record, volume, clients, classified.backup)
    return classified


def classified(site: base.Site, record: records.Record, *, attended: bool) -> roles.Roles:
    """Observe the clients, for a step that fences all but the backup's.

    :raises OverlayBusy: it is not clear which clients are the backup's
    """
    observed = observe(site, record, attended=attended)
    if observed.unclear:
        raise errors.OverlayBusy(
            f'the overlays of superposition {record.id} are open at '
            f'{errors.named(observed.backup)}, and it is not clear which clients of its '
            f'volumes belong to the same backup: more of them are open', observed.unclear,
            'stop the others, and try again')
    return observed


def _look(site: base.Site, volume: records.Volume) -> roles.Seen:
    """Return the clients of a volume and of its overlay."""
    # The ledger first: a client that leaves it meanwhile need not be fenced.
    entries = site.ledger.read(volume)
    watchers = owners = frozenset[str]()
    with contextlib.suppress(errors.VolumeGone):
        watchers, owners = volumes.watchers_and_owners(site.cluster, volume.ref, volume.image_id)
    # The overlay last: a backup opens it after the volume below it, and a client of the volume
    # is a newcomer unless the overlay has one as well.
    overlay = site.visible(volumes.watchers, volume.overlay_ref)
    return roles.Seen(image=watchers | owners, owners=owners, overlay=overlay, ledger=entries)


def _remember(site: base.Site, record: records.Record, volume: records.Volume, look: roles.Seen,
              backup: frozenset[str]) -> None:
    """Enter the clients of a volume into its ledger, unless they are in it.

    A fenced client was entered before, and is not entered again after it has left. One of
    which an earlier look could not tell whether it was the backup's is entered as such, as
    soon as a look can.
    """
    seen = look.image | look.overlay
    clear = {client for client in (seen & backup) - set(record.fenced)
             if look.ledger.get(client) == ledgers.Entry(ledgers.PRIMARY, record.id)}
    if clear:
        site.ledger.enter(volume, clear, ledgers.Entry(ledgers.BACKUP, record.id), replace=True)
    new = seen - look.ledger.keys() - set(record.fenced)
    for role, clients in ((ledgers.BACKUP, new & backup), (ledgers.PRIMARY, new - backup)):
        if clients:
            site.ledger.enter(volume, clients, ledgers.Entry(role, record.id))


def entries(site: base.Site, record: records.Record) -> ledgers.Entries:
    """Return the ledgers of all volumes of a record."""
    return {client: entry for entries in site.each(site.ledger.read, record.volumes)
            for client, entry in entries.items()}


def unlatch(site: base.Site, record: records.Record) -> None:
    """Let librbd lock the volumes again, for good."""
    site.each(lambda volume: site.latch.open(volume, record.id), record.volumes)


def fencing(site: base.Site, record: records.Record, clients: tuple[str, ...]) -> records.Record:
    """Record the clients that are about to be fenced."""
    return site.store.swap(record, dataclasses.replace(
        record, fenced=clients, updated_at=records.now()))
