# SPDX-License-Identifier: Apache-2.0
"""merge: writes the overlays of a promoted superposition to its volumes."""

from collections.abc import Iterator, Mapping
import contextlib
import logging
import threading
from typing import TYPE_CHECKING

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.evidence import sweep
from specreds_cinder.superposition.overlay import merge as merges
from specreds_cinder.superposition.steps import base
from specreds_cinder.superposition.steps import clients as looks
from specreds_cinder.superposition.steps import end
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states

if TYPE_CHECKING:
    from specreds_cinder.superposition.overlay import qmp_backup

LOG = logging.getLogger(__name__)

_LOOK_S = 60.0


def merge(site: base.Site, record: records.Record, backup: 'qmp_backup.QmpBackup | None' = None,
          progress: trace.Progress | None = None, rate: int = 0,
          keys: Mapping[records.VolumeRef, str] | None = None) -> None:
    """Write the overlays to the volumes and end the superposition.

    :param backup: the backup that runs, for a merge under its guest; None for an offline
        merge of overlays that no client has open
    :param progress: called with the bytes merged so far, and all bytes
    :param rate: bytes per second at most, 0 for no limit
    :param keys: passphrases of the encrypted volumes, for an offline merge

    After any error nothing is lost, and the merge may be repeated.

    :raises Conflict: it is not promoted
    :raises MergeFailed: the offline merge failed, or a pool is full
    :raises OverlayBusy: a client has an overlay open
    :raises RecordChanged: a client is about to open an overlay, or another merge has begun to
        write it
    :raises BackupError: the online merge failed
    """
    if backup is None:
        unused(site, record)
    record = _begin(site, record)
    if record.state == states.MERGING:
        record = _admit(site, record) if backup is not None else _shut_out(site, record)
    if record.state == states.MERGING:
        with _kept_fenced(site, record), trace.span('merge', record.id):
            if backup is None:
                record = _merge_offline(site, record, rate, progress, keys)
            else:
                record = _merge_online(site, record, backup, rate, progress)
    elif backup is not None:
        _switch(site, record, backup)
    # A client that still has an overlay open is the server, which is about to close it.
    end.clean(site, record, evict=False)
    LOG.info('superposition %s is merged', record.id)


def unused(site: base.Site, record: records.Record) -> None:
    """Make sure that only fenced clients have an overlay open, and that Ceph has space.

    :raises OverlayBusy: another client has an overlay open
    :raises MergeFailed: a pool is full, and something is left to merge
    """
    record = site.there(record)
    with contextlib.suppress(errors.VolumeGone):
        merges.unused(site.cluster, record, site.fence)
    if record.state != states.MERGED:
        merges.check_space(site.cluster, record.volumes)


def _shut_out(site: base.Site, record: records.Record) -> records.Record:
    """Fence every client that may still write, so that only the merge does.

    For example, the watches of a promoted backup that hangs have expired, and the writes that
    it sends to an overlay after the merge has read the overlay would be lost.

    :raises OverlayBusy: a client has an overlay open: the server runs
    """
    observed = looks.classified(site, record, attended=False)
    unused(site, record)
    fenced = observed.fenced | site.owners(record) | set(record.fenced)
    if fenced != set(record.fenced):
        record = looks.fencing(site, record, tuple(sorted(fenced)))
    with trace.span('shut out', record.id):
        site.fence.close(fenced)
        sweep.barrier(site.cluster, record)
    late = site.fence.outside(looks.entries(site, record).keys() - fenced)
    if late:
        raise errors.OverlayBusy(
            f'while clients of superposition {record.id} were fenced, its volumes or overlays '
            f'were opened', late, 'merge it again')
    looks.unlatch(site, record)
    return record


def _admit(site: base.Site, record: records.Record) -> records.Record:
    """Let the server that runs lock its volumes, and no other client that is visible or known.

    A client that waits for the lock watches the volume: it is fenced before it can have it.
    """
    fenced = looks.classified(site, record, attended=True).fenced
    new = fenced - set(record.fenced)
    if new:
        record = looks.fencing(site, record, tuple(sorted(fenced | set(record.fenced))))
        site.fence.close(new)
    looks.unlatch(site, record)
    return record


def begin_merge(site: base.Site, record: records.Record) -> records.Record:
    """Record that a merge begins, for a hypervisor that runs the merge.

    When this returns, the server that runs can lock its volumes. May be repeated.

    :raises Conflict: it was not promoted
    """
    record = _begin(site, record)
    return _admit(site, record) if record.state == states.MERGING else record


def _begin(site: base.Site, record: records.Record) -> records.Record:
    """Return the record, in a state of a merge, without volumes whose pool was removed."""
    record = site.admit(record, states.MERGE)
    if record.state == states.PROMOTED:
        record = site.store.swap(record, record.moved(states.MERGING))
    return site.there(record)


def end_merge(site: base.Site, record: records.Record) -> None:
    """Record that overlay and volume are equal, while the guest is stopped.

    After this, only the volume is opened. :func:`merge` removes the overlay as soon as the
    hypervisor has released it. May be repeated.

    :raises Conflict: no merge has begun
    """
    record = site.admit(record, states.END_MERGE)
    if record.state == states.MERGING:
        _merged(site, record)


def _merge_offline(site: base.Site, record: records.Record, rate: int,
                   progress: trace.Progress | None,
                   keys: Mapping[records.VolumeRef, str] | None) -> records.Record:
    def announce() -> None:
        # A controller that hangs before it writes, and is overtaken by another merge, would
        # write to a volume that a server uses. The contents of the record stay as they are.
        nonlocal record
        record = site.store.swap(record, record)
    # Of two that begin together, one ends here: its qemu-img, killed below, would leave a
    # watch of the overlay, for which any merge waits half a minute.
    announce()
    try:
        merges.offline(site.cluster, record, site.fence, site.ledger, announce, rate,
                       site.settings.merge_stall_s, progress, keys)
    except errors.VolumeGone:
        # Another controller was faster: it recorded the end before it removed the overlays.
        return site.admit(record, states.MERGE, states.CLEAN)
    # The swap fails if a connection was handed out meanwhile: that has changed the record.
    return _merged(site, record)


def _merge_online(site: base.Site, record: records.Record, backup: 'qmp_backup.QmpBackup',
                  rate: int, progress: trace.Progress | None) -> records.Record:
    """Merge under a running guest.

    Overlay and volume are equal from the end of :meth:`QmpBackup.settle` until the guest
    runs again, so either of them is right, whichever the record names. The record changes
    before any disk is switched: until then the guest can continue with its overlays.
    """
    backup.converge(record, rate, progress)
    backup.suspend()
    try:
        backup.settle(record)
        merged = _merged(site, record)
    except (errors.BackupError, errors.RecordChanged):
        # Nothing is switched. If another controller has recorded the end meanwhile, that one
        # switches the disks and resumes the guest.
        if site.reload(record).state == states.MERGING:
            backup.proceed()
        raise
    _switch(site, merged, backup)
    return merged


def _switch(site: base.Site, record: records.Record, backup: 'qmp_backup.QmpBackup') -> None:
    backup.switch(record)
    backup.proceed()
    backup.release(record)


def _merged(site: base.Site, record: records.Record) -> records.Record:
    return site.store.swap(record, record.moved(states.MERGED))


@contextlib.contextmanager
def _kept_fenced(site: base.Site, record: records.Record) -> Iterator[None]:
    """Renew the fence as long as the context lasts."""
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(min(_LOOK_S, site.settings.fence_expiry_s / 4)):
            try:
                site.fence.renew(record.fenced)
            except errors.SuperError:
                LOG.exception('the fence of superposition %s could not be renewed, trying '
                              'again while its merge runs', record.id)
    site.fence.renew(record.fenced)
    thread = threading.Thread(target=keep, daemon=True, name=f'fence-{record.id[:8]}')
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
