# SPDX-License-Identifier: Apache-2.0
"""The end of a superposition: overlays, claims, fence and record are removed."""

from collections.abc import Iterator
import contextlib
import dataclasses
import datetime
import logging

import tenacity

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.ceph import address
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.exclusion import ledger as ledgers
from specreds_cinder.superposition.exclusion import roles
from specreds_cinder.superposition.overlay import overlay
from specreds_cinder.superposition.overlay import removal
from specreds_cinder.superposition.steps import base
from specreds_cinder.superposition.steps import clients as looks
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_cinder.superposition.truth import store as stores

LOG = logging.getLogger(__name__)

# Seconds after a decision for a primary for which late entries of its fence are looked for.
_LATE_S = 3600.0
# The label with the times at which clients were fenced already, by client.
FENCED_AT = 'fenced_at'


def abort(site: base.Site, record: records.Record, progress: trace.Progress | None = None) -> None:
    """Decide for the primary: drop the overlays and the record.

    The fence of an interrupted collapse is removed. Clients that have met the fence stay dead
    all the same: check the primary then.

    :param progress: called with the number of objects of an overlay that were examined, and
        of all that may exist
    :raises Conflict: the backup's version is promoted
    """
    record = site.reload(record)
    if states.ABORT not in states.STEPS[record.state]:
        raise errors.Conflict(
            f'superposition {record.id} is {record.state}: the version of the backup is the '
            f'real one, it can only be merged', record.state)
    drop(site, record, states.ABORTED, progress)


def drop(site: base.Site, record: records.Record, outcome: str,
         progress: trace.Progress | None = None, *, fenced: bool = True) -> None:
    """Decide for the primary, and remove what belongs to the superposition.

    :param fenced: the primary may be fenced. It waits for the latch then until the fence is
        lifted: otherwise it would meet the fence, and may lose what it has cached
    """
    if record.state != states.ABORTING:
        record = site.store.swap(record, record.moved(states.ABORTING, outcome=outcome))
    try:
        _drop(site, record, progress, fenced=fenced)
    except errors.PoolGone:
        there = site.there(record)
        if there == record:
            raise
        _drop(site, there, progress, fenced=fenced)


def _drop(site: base.Site, record: records.Record, progress: trace.Progress | None, *,
          fenced: bool) -> None:
    for step in (_unfence, looks.unlatch) if fenced else (looks.unlatch, _unfence):
        step(site, record)
    _evict(site, record)
    clean(site, record, progress, evict=True)


def _evict(site: base.Site, record: records.Record) -> None:
    """Fence the clients through which a dead or hung backup has the volumes open.

    QEMU opens the volumes below the overlays, with clients of their own; as long as Ceph takes
    these for alive, the host of the primary is ambiguous. Clients on a host of the primary are
    left alone. The owner of an overlay's lock may hang, also if its watch has expired.
    """
    backup = site.users(record)
    hosts = {address.host(client) for client in backup}
    hosts -= {address.host(client) for client in record.clients}
    below = frozenset(
        client for volume in record.volumes
        for client in site.visible(volumes.clients, volume.ref, volume.image_id)
        if address.host(client) in hosts) if hosts and record.clients else frozenset()
    # The clients of the overlays are fenced when these are removed.
    site.keep_fenced(record.homes, backup | below | site.owners(record), record.id,
                     record.server_id)
    site.fence.evict(below)


def tidy(site: base.Site, home: records.Home, older_s: float = 600) -> int:
    """Remove remains of superpositions, and fences that came after a decision.

    :param older_s: as for the entries of the index, and age up to which removed overlays are not
        looked for again
    :returns: number of index entries that were removed
    """
    removed = site.tidy_index(home, older_s)
    # First of all: a primary that lives may be shut out.
    _tidy_fences(site, home)
    for entry in removal.again(site.cluster, home, older_s):
        site.store.release_void(home, entry.image_id)
    _tidy_overlays(site, home)
    return removed


def _tidy_overlays(site: base.Site, home: records.Home) -> None:
    """Remove overlays of no superposition, which a controller made that was overtaken."""
    # The images first: an overlay is made after its superposition was entered into the index.
    named = {name: parts for name in volumes.names(site.cluster, home)
             if (parts := overlay.named(name)) is not None}
    index = site.store.index(home) if named else {}
    known = {overlay.named(overlay.name('', superposition)) for superposition in index}
    orphans = {name: image for name, (image, part) in named.items() if ('', part) not in known}
    for name, image in orphans.items():
        try:
            _tidy_overlay(site, records.VolumeRef(home.pool, home.namespace, name), image)
        except (errors.OverlayBusy, errors.ClusterError) as exc:
            LOG.warning('cannot remove overlay %s, which is in no superposition, trying again '
                        'at the next pass: %s', name, exc)


def _tidy_overlay(site: base.Site, ref: records.VolumeRef, image: str) -> None:
    """Remove an overlay of no superposition, as soon as its volume is in none, either.

    :param image: name of the image of its volume
    :raises OverlayBusy: a client has it open
    """
    image_id = None
    with contextlib.suppress(errors.VolumeGone), volumes.opened(
            site.cluster, dataclasses.replace(ref, image=image)) as opened:
        image_id = opened.id()
    if image_id is not None and site.store.holder(ref.home, image_id) is not None:
        return
    if removal.remove_orphan(site.cluster, ref, site.fence):
        LOG.info('overlay %s, which was in no superposition, is removed', ref)
        if image_id is not None:
            site.store.release_void(ref.home, image_id)


def _tidy_fences(site: base.Site, home: records.Home) -> None:
    """Remove late entries of the fences of dropped superpositions."""
    if dropped := site.dropped.read(home):
        # An entry that is shorter has another author: librbd as it breaks a lock, or an
        # operator. Another host may rely on it.
        blocklist = frozenset(client for client, left in site.fence.remaining().items()
                              if left > site.settings.fence_expiry_s / 2)
        pools = {pool.name for pool in site.cluster.pools().values()}
        for record in dropped:
            try:
                # Nothing is left to do for a volume whose pool was removed.
                _tidy_dropped(site, dataclasses.replace(record, volumes=tuple(
                    volume for volume in record.volumes
                    if volume.ref.pool in pools)), blocklist)
            except errors.ClusterError as exc:
                LOG.warning('cannot look for late entries of the fence of superposition %s, '
                            'trying again: %s', record.id, exc)


def _tidy_dropped(site: base.Site, record: records.Record, blocklist: frozenset[str]) -> None:
    """Remove late entries of the fence of a primary that lives; after an hour, forget it.

    :param blocklist: the clients on the blocklist that a superposition has fenced
    """
    if _claims(site, record):
        return
    if late := blocklist & set(record.fenced):
        _unfence_gone(site, dataclasses.replace(record, fenced=tuple(sorted(late))))
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(record.updated_at)
    if age.total_seconds() > _LATE_S:
        site.dropped.remove(record)


def _unfence(site: base.Site, record: records.Record) -> None:
    """Remove the fence of a primary that lives, unless another superposition decides on it."""
    if (record.outcome in states.LIVING and record.fenced
            and {claim.superposition for claim in _claims(site, record)} <= {record.id}):
        _lift(site, record, _living(site, record, looks.entries(site, record)))


def unfence_lost(site: base.Site, record: records.Record) -> None:
    """Remove the fence of a record that another controller has decided, or ended.

    If the record is gone, the ledgers decide: clients that are fenced for good have left them.
    If a volume is in another superposition by now, that one decides.
    """
    try:
        _unfence(site, dataclasses.replace(record, outcome=site.reload(record).outcome))
    except errors.NotSuperposed:
        if not _claims(site, record):
            _unfence_gone(site, record)


def _unfence_gone(site: base.Site, record: records.Record) -> None:
    """Remove the fence of a superposition that is gone from clients that live.

    Its volumes are in no superposition.
    """
    entries = looks.entries(site, record)
    if living := _living(site, record, entries) & entries.keys():
        LOG.info('superposition %s was decided for its primary, which a late fence has shut '
                 'out: removing %s from the blocklist', record.id, ', '.join(sorted(living)))
        _lift(site, record, living)


def _lift(site: base.Site, record: records.Record, clients: frozenset[str]) -> None:
    """Remove the fence of clients, and see to decisions that need it.

    No such decision was known before. But this controller may have hung since, and another
    superposition may have fenced the same clients.
    """
    if clients:
        try:
            site.fence.open(clients)
        finally:
            # After an error it may be lifted all the same, later.
            _restore_fence(site, record, clients)


# Each loser of a compare-and-swap makes way for a winner, so this ends.
@tenacity.retry(retry=tenacity.retry_if_exception_type(errors.RecordChanged),
                wait=tenacity.wait_random(0, 0.1), stop=tenacity.stop_after_attempt(20),
                reraise=True)
def _restore_fence(site: base.Site, record: records.Record, clients: frozenset[str]) -> None:
    """Fence the clients again that another superposition than the record's fences.

    An undecided one has to sweep again, as a client may have written while it was not fenced.
    Its record changes before the fence is back, so that a commit that is on its way fails.
    """
    needed: frozenset[str] = frozenset()
    for other in _others(site, record):
        if other.outcome in states.LIVING or clients.isdisjoint(other.fenced):
            continue
        # If it has ended meanwhile, clients that it has fenced for good are listed.
        with contextlib.suppress(errors.NotSuperposed):
            if other.outcome is None:
                site.store.swap(other, dataclasses.replace(other, updated_at=records.now()))
            needed |= clients & set(other.fenced)
    needed |= clients & _fenced_for_good(site, record)
    if needed:
        LOG.warning('superposition %s has removed the fence of %s, which another one needs: '
                    'fencing them again', record.id, errors.named(needed))
        site.fence.close(needed)


def _claims(site: base.Site, record: records.Record) -> frozenset[stores.Claim]:
    """Return the claims on the volumes of a record, without void ones."""
    claims = site.each(lambda volume: site.store.holder(volume.ref.home, volume.image_id),
                       record.volumes)
    return frozenset(claim for claim in claims if claim is not None)


def _others(site: base.Site, record: records.Record) -> Iterator[records.Record]:
    """Yield the other superpositions that the volumes of a record are in."""
    for claim in _claims(site, record):
        if claim.superposition != record.id:
            with contextlib.suppress(errors.NotSuperposed):
                yield site.store.read(claim.superposition, claim.home)


def _living(site: base.Site, record: records.Record, entries: ledgers.Entries) -> frozenset[str]:
    """Return the fenced clients that may live on.

    A client that another decision has fenced for good may be listed as a watcher still.
    """
    return roles.living(record, entries) - _fenced_for_good(site, record)


def _fenced_for_good(site: base.Site, record: records.Record) -> frozenset[str]:
    """Return the clients that other superpositions than a record's have fenced for good."""
    return frozenset(client for home in record.homes
                     for client, entry in site.fenced_clients.read(home).entries.items()
                     if entry.superposition != record.id)


def clean(site: base.Site, record: records.Record, progress: trace.Progress | None = None, *,
          evict: bool) -> None:
    """Remove everything that belongs to a decided superposition; its record last."""
    site.each(lambda volume: removal.remove(site.cluster, volume, site.fence, progress,
                                            evict=evict), record.volumes)
    _settle(site, record)
    looks.unlatch(site, record)
    # Again: a controller that was collapsing when the record was decided may have fenced
    # since. Without a record it fences nothing, but the monitors may commit its entries late.
    _unfence(site, record)
    if record.outcome in states.LIVING and (record.cuts or record.fenced):
        site.dropped.enter(record)
    site.each(lambda volume: site.store.release(volume, record.id), record.volumes)
    site.store.delete(record)


def _settle(site: base.Site, record: records.Record) -> None:
    """Remove from the ledgers the clients that this superposition has fenced for good."""
    if record.outcome not in states.FENCED or not record.fenced:
        return
    proven = site.fence.remaining(record.fenced).keys()
    fenced_at = record.labels.get(FENCED_AT, {})
    for moment in {fenced_at.get(client) for client in proven}:
        site.keep_fenced(
            record.homes, {client for client in proven if fenced_at.get(client) == moment},
            record.id, record.server_id, moment)
    site.each(lambda volume: site.ledger.leave(volume, proven), record.volumes)
