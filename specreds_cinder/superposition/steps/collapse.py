# SPDX-License-Identifier: Apache-2.0
"""check and collapse: sweep, fence, sweep again, and the commit point."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent import futures
import contextlib
import dataclasses
import logging
import time
from typing import TYPE_CHECKING

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.evidence import sweep
from specreds_cinder.superposition.exclusion import handover
from specreds_cinder.superposition.exclusion import ledger as ledgers
from specreds_cinder.superposition.overlay import overlay
from specreds_cinder.superposition.steps import base
from specreds_cinder.superposition.steps import clients as looks
from specreds_cinder.superposition.steps import end
from specreds_cinder.superposition.steps import renewal as renewals
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states

if TYPE_CHECKING:
    from specreds_cinder.superposition.overlay import qmp_backup

LOG = logging.getLogger(__name__)

_FENCE_ROUNDS = 3
# Ceph returns the answers of those clients that have answered after a second.
_ALL_ANSWER_S = 1.5
_SETTLE_S = 2.0


@dataclasses.dataclass(frozen=True)
class CollapseReport:
    """The result of a collapse.

    :param outcome: promoted, dirty, unproven or late-dirty
    :param sweep1: the sweep before the fence
    :param sweep2: the sweep behind the fence, None if there was none
    :param durable_s: seconds until the backup's disks were durable
    :param fence_s: seconds from the request of the first blocklist entry to the osdmap with all
    :param window_s: seconds from the end of the first sweep until the fence was in force: a
        primary that writes within them is late dirty
    :param commit_s: seconds that the commit took
    :param total_s: seconds of the whole collapse
    """

    outcome: str
    sweep1: sweep.SweepReport
    sweep2: sweep.SweepReport | None = None
    durable_s: float = 0.0
    fence_s: float = 0.0
    window_s: float = 0.0
    commit_s: float = 0.0
    total_s: float = 0.0

    @property
    def durations(self) -> dict[str, float]:
        """Return the seconds of each step."""
        return {'sweep1': self.sweep1.seconds, 'durable': self.durable_s, 'fence': self.fence_s,
                'window': self.window_s, 'sweep2': self.sweep2.seconds if self.sweep2 else 0.0,
                'commit': self.commit_s, 'total': self.total_s}


def check(site: base.Site, record: records.Record) -> sweep.SweepReport:
    """Sweep once, and return the report. Changes nothing.

    :raises Conflict: it is decided already, or not superposed yet
    """
    record = site.admit(record, states.CHECK)
    return _sweep(site, record, thorough=False)


def watch(site: base.Site, record: records.Record, on_dirty: Callable[[sweep.SweepReport], None],
          objects_per_s: float | None = None) -> sweep.BackgroundSweep:
    """Sweep in the background while the context lasts, until dirty.

    :param on_dirty: called once, in another thread
    :param objects_per_s: pace, by default as the settings have it
    """
    return sweep.BackgroundSweep(site.cluster, record, on_dirty,
                                 pace=objects_per_s or site.settings.watch_objects_per_second,
                                 first=site.first_sweeps)


def _sweep(site: base.Site, record: records.Record, *, thorough: bool,
           renew: Callable[[], None] = lambda: None,
           sealed: Collection[records.Volume] | None = None) -> sweep.SweepReport:
    with trace.span('sweep', record.id):
        return sweep.Sweeper(site.cluster, record, thorough=thorough, renew=renew,
                             first=site.first_sweeps, sealed=sealed).run()


def _sweep_renewed(site: base.Site, renewal: renewals.Renewal, *, thorough: bool,
                   sealed: Collection[records.Volume] | None = None) -> sweep.SweepReport:
    """Sweep for a decision, whose record is renewed meanwhile.

    :raises RecordChanged: another controller has changed the record: this one must not decide
    """
    return _sweep(site, renewal.record, thorough=thorough, renew=renewal.renew, sealed=sealed)


def collapse(site: base.Site, record: records.Record,
             backup: 'qmp_backup.QmpBackup | None' = None, *,
             durable: bool = False) -> CollapseReport:
    """Decide which version is real: the backup's, unless the primary has written.

    :param backup: the backup that runs, so that its disks become durable first; None if no
        client has written to the overlays
    :param durable: a backup runs whose disks the caller has made durable already
    :returns: the outcome. After ``dirty`` the primary runs on undisturbed; after ``unproven``
        it may, and another superposition may prove more; after ``late-dirty`` it is fenced,
        and its version has every write that was acknowledged: start it again.
    :raises Conflict: it is not superposed, or another controller decided meanwhile
    :raises BackupError: the backup's disks could not be made durable, or ``backup`` is None
        and the overlays were written; still superposed
    :raises OverlayBusy: a backup runs, and ``backup`` is None; still superposed
    :raises ClusterTimeout: Ceph did not answer in time; :meth:`Protocol.resume` continues
    """
    record = site.admit(record, states.COLLAPSE)
    return decide(site, record, backup, durable=durable)


def _commit(site: base.Site, record: records.Record) -> None:
    with trace.span('commit', record.id):
        # A host may boot long before the merge: its clients were fenced before that.
        fenced_at = dict.fromkeys(record.fenced, records.now())
        labels = record.labels | ({end.FENCED_AT: fenced_at} if fenced_at else {})
        site.store.swap(record, record.moved(
            states.PROMOTED, outcome=states.PROMOTED, labels=labels))
    LOG.info('superposition %s is promoted', record.id)


def decide(site: base.Site, record: records.Record, backup: 'qmp_backup.QmpBackup | None', *,
           durable: bool = False) -> CollapseReport:
    """Carry a decision out, or continue an interrupted one.

    Without a volume whose pool was removed nothing is proven: the decision is for the primary.
    """
    try:
        return _decide(site, record, backup, durable=durable)
    except errors.PoolGone as exc:
        if site.there(record) == record:
            raise
        end.drop(site, site.reload(record), states.UNPROVEN)
        return CollapseReport(states.UNPROVEN, sweep.SweepReport(
            False, str(exc), 0, 0.0, unproven=True))


def _decide(site: base.Site, record: records.Record, backup: 'qmp_backup.QmpBackup | None', *,
            durable: bool) -> CollapseReport:
    began = time.monotonic()
    if backup is not None:
        with trace.span('durable', record.id):
            backup.make_durable(record)
    durable_s = time.monotonic() - began
    durable = durable or backup is not None
    clients = _primary(site, record, attended=durable).union(record.fenced)
    fenced = tuple(sorted(clients))
    # If it is resumed without the backup, its disks are durable all the same.
    labels = record.labels | ({records.DURABLE: True} if durable else {})
    _assert_durable(site, dataclasses.replace(record, labels=labels))
    resumed = record.state == states.COLLAPSING
    # The primary is dead as a fact, or an earlier decision may have fenced it.
    dead = resumed or bool(record.fenced)
    if not resumed:
        record = site.store.swap(record, record.moved(
            states.COLLAPSING, fenced=fenced, labels=labels))
    elif (fenced, labels) != (record.fenced, record.labels):
        record = site.store.swap(record, dataclasses.replace(
            record, fenced=fenced, labels=labels, updated_at=records.now()))
    report = _race(site, record, clients, resumed=resumed, dead=dead)
    return dataclasses.replace(report, durable_s=durable_s, total_s=time.monotonic() - began)


def _race(site: base.Site, record: records.Record, clients: frozenset[str], *,
          resumed: bool, dead: bool) -> CollapseReport:
    """Let the primary win if it has written, and the backup behind a fence if it has not.

    :param dead: the primary is fenced, or may be
    """
    renewal = renewals.Renewal(site.store, record, site.settings.stale_after_s)
    free = _free(site, record)
    with futures.ThreadPoolExecutor(1, 'ask') as executor:
        asking = executor.submit(_silent, site, record, free)
        first = _sweep_renewed(site, renewal, thorough=False)
        silent = asking.result()
    sealed: Collection[records.Volume] = ()
    known = set(clients)
    fence_s, window_s, fencing = None, 0.0, False
    with _unfenced_if_lost(site, record, known):
        try:
            if first.clean:
                shut = _shut(site, record, free)
                sealed = [volume for volume in shut if volume.handed]
                # One that was slow may have let go by now.
                silent = frozenset(volume for volume in silent
                                   if not site.latch.unowned(volume, record.id))
                # All owners are one server's: if one has answered, the others are slow.
                if any(volume not in free and volume not in silent for volume in record.volumes
                       if len(volume.clients) == 1):
                    silent = frozenset()
                first = _shut_rest(site, renewal, first, [
                    volume for volume in record.volumes if volume not in shut | silent])
            if first.clean or (dead and _was_fenced(site, renewal.record)):
                swept = time.monotonic()
                # Nothing is fenced if another controller has changed the record meanwhile.
                site.assert_unchanged(renewal.record)
                # From here on the primary may be fenced, whatever the answer is.
                fencing = True
                fence_s = _close(site, renewal.record, clients)
                window_s = time.monotonic() - swept
        except (errors.NotSuperposed, errors.RecordChanged):
            raise
        except errors.SuperError as exc:
            # A fence that was refused cannot come.
            fencing = fencing and not isinstance(exc, errors.NotAllowed)
            if dead or fencing or silent == frozenset(record.volumes):
                raise
            # The primary may wait for a latch, and would wait until this is continued.
            first = dataclasses.replace(first, unproven=True, first=str(exc))
        record = renewal.record
        if fence_s is None:
            outcome = states.DIRTY if first.dirty else states.UNPROVEN
            LOG.info('superposition %s is %s, deciding for the primary: %s', record.id, outcome,
                     first.first)
            end.drop(site, record, outcome, fenced=dead)
            return CollapseReport(outcome, first)
        renewal.renew()
        # Before the sweep: any client that has the lock after this is among those that the
        # sweep is followed by a look at.
        _latch(site, record)
        second = _behind_fence(site, renewal, known, sealed)
        record = renewal.record
        report = CollapseReport(
            states.PROMOTED if second.clean else states.LATE_DIRTY, first, second,
            fence_s=fence_s, window_s=window_s)
        if not second.clean:
            LOG.warning('superposition %s is late dirty, its fenced primary has to be '
                        'started again: %s', record.id, second.first)
            end.drop(site, record, states.LATE_DIRTY)
            return report
        _assert_durable(site, record)
        _assert_fenced(site, record)
        committing = time.monotonic()
        _commit(site, record)
    return dataclasses.replace(report, commit_s=time.monotonic() - committing)


def _close(site: base.Site, record: records.Record, clients: frozenset[str]) -> float:
    """Fence the clients of the primary, and return the seconds that this has taken."""
    began = time.monotonic()
    with trace.span('fence', record.id):
        site.fence.close(clients)
    return time.monotonic() - began


def _assert_fenced(site: base.Site, record: records.Record) -> None:
    """Make sure that every client in the ledgers is fenced, or is the backup's.

    The steps before should have fenced them all: this looks once more, by ledger and blocklist
    alone, since a promotion cannot be taken back.

    :raises ClusterError: a client is not fenced; the superposition is collapsing, and may be
        resumed
    """
    noted = ledgers.Entry(ledgers.BACKUP, record.id)
    others = {client for client, entry in looks.entries(site, record).items() if entry != noted}
    others -= site.users(record)
    if unfenced := site.fence.outside(others):
        raise errors.ClusterError(
            f'superposition {record.id} cannot be promoted: its ledgers have clients that are '
            f'not fenced: {errors.named(unfenced)}; resume it')


def _assert_durable(site: base.Site, record: records.Record) -> None:
    """Make sure that no write that a backup has acknowledged can be missing from an overlay.

    A backup ignores flushes until its disks are made durable. If it has died before that, an
    entry of the qcow2 tables may be in Ceph, and the block that it names not.

    :raises BackupError: an overlay was written, and no backup has made its disks durable
    """
    if record.labels.get(records.DURABLE):
        return
    written = site.each(lambda volume: overlay.is_written(site.cluster, volume), record.volumes)
    if any(written):
        names = ', '.join(str(volume.overlay_ref) for volume, each in zip(
            record.volumes, written, strict=True) if each)
        raise errors.BackupError(
            f'superposition {record.id} cannot be promoted: a backup has written to {names}, '
            f'and may have died before its writes were durable. Name the backup that runs, so '
            f'that its disks become durable first. If none runs, abort: the version of the '
            f'primary is complete')


def _behind_fence(site: base.Site, renewal: renewals.Renewal, known: set[str],
                  sealed: Collection[records.Volume]) -> sweep.SweepReport:
    """Sweep until no client of the primary was outside the fence before the sweep began.

    :param known: the fenced clients; clients that are fenced here are added
    """
    before = frozenset(known)
    for _ in range(_FENCE_ROUNDS):
        report = _sweep_renewed(site, renewal, thorough=True, sealed=sealed)
        clients = _primary(site, renewal.record, attended=True)
        # Also if it is not clean: a newcomer would write beside the primary that is
        # started again.
        if clients <= known:
            return report
        known |= clients
        renewal.record = looks.fencing(site, renewal.record, tuple(sorted(known)))
        site.fence.close(clients)
    raise errors.ClusterError(
        f'new clients keep opening the volumes of superposition {renewal.record.id}: '
        f'{", ".join(sorted(known - before))}')


def _free(site: base.Site, record: records.Record) -> dict[records.Volume, int]:
    """Return the versions of the headers whose locks have no owner, or had none at ``super``."""
    versions = site.each(lambda volume: volume.handed or site.latch.unowned(volume, record.id),
                         record.volumes)
    return {volume: version for volume, version in zip(record.volumes, versions, strict=True)
            if version}


def _silent(site: base.Site, record: records.Record, free: Collection[records.Volume]
            ) -> frozenset[records.Volume]:
    """Return the volumes whose primary is silent: no owner of their locks answers.

    A primary that has answered ``super`` is left alone, as it may be writing: then it wins. So is
    the owner of a volume with several clients, as it may work for Cinder.
    """
    owned = [volume for volume in record.volumes
             if volume not in free and len(volume.clients) == 1]
    return frozenset(volume for volume, version in _request(site, record, owned).items()
                     if version is None)


def _request(site: base.Site, record: records.Record, owned: Sequence[records.Volume],
             patience_s: float = 0.0) -> dict[records.Volume, int | None]:
    """Ask the owners of volumes' locks to let go; return what :func:`handover.request` does."""
    with trace.span('handover', record.id):
        versions = site.each(lambda volume: handover.request(
            site.cluster, site.latch, volume, record.id, insist=True, patience_s=patience_s),
            owned)
    return dict(zip(owned, versions, strict=True))


def _shut(site: base.Site, record: records.Record, free: Mapping[records.Volume, int]
          ) -> frozenset[records.Volume]:
    """Close the latches of the volumes whose headers have not changed; return these volumes.

    If a lock was handed over at ``super``, nobody has written to the volume, and nobody can. A
    primary that writes now waits for the lock: until the decision has fenced it, or is for the
    primary, and opens the latch.

    :param free: the version of the header of each volume, when its lock had no owner
    """
    def shut(volume: records.Volume) -> bool:
        with contextlib.suppress(errors.VolumeGone):
            return site.latch.seal(volume, record.id, free[volume])
        return False
    with trace.span('seal', record.id):
        closed = site.each(shut, list(free))
    return frozenset(volume for volume, each in zip(free, closed, strict=True) if each)


def _shut_rest(site: base.Site, renewal: renewals.Renewal, first: sweep.SweepReport,
               rest: Sequence[records.Volume]) -> sweep.SweepReport:
    """Close the latches of other volumes, unless the owners of their locks are silent.

    An owner that lives may have acknowledged writes that no OSD has, and may acknowledge flushes
    of them while it is being fenced. It therefore hands its lock over before the fence, with all
    of its writes, and cannot take the lock again; otherwise it wins.

    :param first: the sweep that was clean
    :returns: a sweep that began when no owner that lives could write any more, if it is clean
    """
    record = renewal.record
    for _ in range(_FENCE_ROUNDS):
        if not rest:
            return first
        versions = _request(site, record, rest, _ALL_ANSWER_S)
        if kept := [volume for volume, version in versions.items() if version == 0]:
            return _alive(site, first, kept)
        first = _sweep_renewed(site, renewal, thorough=False, sealed=[
            volume for volume in record.volumes if volume not in rest])
        if not first.clean:
            return first
        free = {volume: version for volume, version in versions.items() if version}
        rest = list(free.keys() - _shut(site, record, free))
    return _alive(site, first, rest) if rest else first


def _alive(site: base.Site, first: sweep.SweepReport, kept: Sequence[records.Volume]
           ) -> sweep.SweepReport:
    """Return a report that the owners of some locks live: the primary, or somebody else."""
    owners = {volume.ref: volumes.owners(site.cluster, volume.ref, volume.image_id)
              for volume in kept}
    dirty = any(owners[volume.ref] & set(volume.clients) for volume in kept)
    return dataclasses.replace(
        first, dirty=dirty, unproven=not dirty,
        first=f'the owner of the lock of {kept[0].ref} lives, and keeps it')


def _latch(site: base.Site, record: records.Record) -> None:
    """Keep every client that does not have a volume's lock from taking it."""
    def close(volume: records.Volume) -> None:
        # The sweep proves nothing without the image.
        with contextlib.suppress(errors.VolumeGone):
            site.latch.close(volume, record.id)
    with trace.span('latch', record.id):
        site.each(close, record.volumes)


def _was_fenced(site: base.Site, record: records.Record) -> bool:
    """Report whether an interrupted collapse has fenced any client.

    Its last request may not have taken effect: the monitors commit about once a second.
    """
    time.sleep(_SETTLE_S)
    return bool(site.fence.remaining(record.fenced))


@contextlib.contextmanager
def _unfenced_if_lost(site: base.Site, record: records.Record, known: set[str]) -> Iterator[None]:
    """Remove the fence if another controller decided for the primary before the commit.

    The other controller removes it, too, but an election of monitors may have delayed the
    entries of this one until after that.
    """
    try:
        yield
    except (errors.RecordChanged, errors.NotSuperposed):
        end.unfence_lost(site, dataclasses.replace(record, fenced=tuple(known)))
        raise


def _primary(site: base.Site, record: records.Record, *, attended: bool) -> frozenset[str]:
    """Return the clients to fence, after all visible clients are in the ledgers.

    :param attended: the caller has made the disks of the backup durable, if one runs
    :raises OverlayBusy: a backup runs whose acknowledged writes may not be durable, or it is
        not clear which clients are its own
    """
    observed = looks.classified(site, record, attended=attended)
    # An OSD may list a dead client as a watcher for ever, until an operator fences the client.
    if not attended and (running := site.fence.outside(observed.backup)):
        raise errors.OverlayBusy(
            f'a backup has the overlays of superposition {record.id} open', running,
            'collapse it through its hypervisor, so that its disks become durable first, or '
            'abort')
    return observed.fenced
