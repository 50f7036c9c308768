# SPDX-License-Identifier: Apache-2.0
"""check and collapse: sweep, fence, sweep again, and the commit point."""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import logging
import time

from specreds_cinder.superposition import backup as backups
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import ledger as ledgers
from specreds_cinder.superposition import overlay
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import states
from specreds_cinder.superposition import sweep
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.protocol import end
from specreds_cinder.superposition.protocol import renewal as renewals

LOG = logging.getLogger(__name__)

_FENCE_ROUNDS = 3
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


class Collapse(end.Ending):
    """Decides which version of a superposition is real."""

    def check(self, record: records.Record) -> sweep.SweepReport:
        """Sweep once, and return the report. Changes nothing.

        :raises Conflict: it is decided already, or not superposed yet
        """
        record = self._in(record, states.CHECK)
        return self._sweep(record, thorough=False)

    def watch(self, record: records.Record, on_dirty: Callable[[sweep.SweepReport], None],
              objects_per_s: float | None = None) -> sweep.BackgroundSweep:
        """Sweep in the background while the context lasts, until dirty.

        :param on_dirty: called once, in another thread
        :param objects_per_s: pace, by default that of the settings
        """
        return sweep.BackgroundSweep(self.cluster, record, on_dirty,
                                     pace=objects_per_s or self.settings.watch_objects_per_second,
                                     first=self.first_sweeps)

    def _sweep(self, record: records.Record, *, thorough: bool,
               renew: Callable[[], None] = lambda: None) -> sweep.SweepReport:
        with trace.span('sweep', record.id):
            return sweep.Sweeper(self.cluster, record, thorough=thorough,
                                 settings=self.settings, renew=renew,
                                 first=self.first_sweeps).run()

    def _sweep_renewed(self, renewal: renewals.Renewal, *, thorough: bool) -> sweep.SweepReport:
        """Sweep for a decision, whose record is renewed meanwhile.

        :raises RecordChanged: another controller has changed the record: this one must not decide
        """
        return self._sweep(renewal.record, thorough=thorough, renew=renewal.renew)

    def collapse(self, record: records.Record, promote: bool = True,
                 backup: backups.Durability | None = None) -> CollapseReport:
        """Decide which version is real: the backup's, unless the primary has written.

        :param promote: False is the same as :meth:`abort`
        :param backup: the backup that runs, so that its disks become durable first; None if no
            client has written to the overlays
        :returns: the outcome. After ``dirty`` the primary runs on undisturbed; after ``unproven``
            it may, and another superposition may prove more; after ``late-dirty`` it is fenced,
            and its version has every write that was acknowledged: start it again.
        :raises Conflict: it is not superposed, or another controller decided meanwhile
        :raises BackupError: the backup's disks could not be made durable, or ``backup`` is None
            and the overlays were written; still superposed
        :raises OverlayBusy: a backup runs, and ``backup`` is None; still superposed
        :raises ClusterTimeout: Ceph did not answer in time; :meth:`resume` continues
        """
        if not promote:
            self.abort(record)
            return CollapseReport(states.ABORTED, sweep.SweepReport(False, None, 0, 0.0))
        record = self._in(record, states.COLLAPSE)
        self._alone(record)
        return self._collapse(record, backup)

    def prepare(self, record: records.Record,
                backup: backups.Durability | None = None) -> CollapseReport:
        """Fence and sweep a superposition that is decided together with others.

        The caller has checked all of them before. Behind its fence a superposition does not
        change, so :meth:`commit` or :meth:`give_up` may follow at any time. A preparation that
        was interrupted, or has ended, may be repeated. Parameters and errors are those of
        :meth:`collapse`.

        :returns: the outcome: prepared, or late-dirty; either way it is fenced, and undecided
        """
        record = self._in(record, states.PREPARE)
        return self._collapse(record, backup, decide=False)

    def commit(self, record: records.Record) -> None:
        """Decide for the backup, after all that were prepared together. May be repeated.

        :raises Conflict: it is not prepared
        """
        record = self.reload(record)
        step = states.STEPS[record.state].get(states.COMMIT)
        if step == states.NOTHING:
            return
        if step is None or not record.prepared or record.outcome is not None:
            raise errors.Conflict(f'superposition {record.id} is {record.outcome or record.state} '
                                  f'and not prepared to be promoted', record.state)
        self._commit(record)

    def give_up(self, record: records.Record) -> None:
        """Decide for the primary, which is fenced: it is late dirty.

        :raises Conflict: it is not prepared, or decided
        """
        record = self._in(record, states.GIVE_UP)
        if not record.prepared:
            raise errors.Conflict(
                f'superposition {record.id} is not prepared: a fenced write of its primary may '
                f'be on its way yet', record.state)
        self._drop(record, states.LATE_DIRTY)

    def _alone(self, record: records.Record) -> None:
        """:raises Conflict: the record may not be decided by itself"""
        if record.joint:
            raise errors.Conflict(
                f'superposition {record.id} is decided together with others: prepare and commit '
                f'it where they are', record.state)

    def _commit(self, record: records.Record) -> None:
        with trace.span('commit', record.id):
            # A host may boot long before the merge: its clients were fenced before that.
            fenced_at = dict.fromkeys(record.fenced, records.now())
            labels = record.labels | ({end.FENCED_AT: fenced_at} if fenced_at else {})
            self.store.swap(record, record.moved(
                states.PROMOTED, outcome=states.PROMOTED, labels=labels))
        LOG.info('superposition %s is promoted', record.id)

    def _collapse(self, record: records.Record, backup: backups.Durability | None, *,
                  decide: bool = True) -> CollapseReport:
        began = time.monotonic()
        if backup is not None:
            with trace.span('durable', record.id):
                backup.make_durable(record)
        durable_s = time.monotonic() - began
        clients = self._primary(record, attended=backup is not None).union(record.fenced)
        fenced = tuple(sorted(clients))
        # If it is resumed without the backup, its disks are durable all the same.
        labels = record.labels | ({records.DURABLE: True} if backup is not None else {})
        self._assert_durable(dataclasses.replace(record, labels=labels))
        resumed = record.state == states.COLLAPSING
        if not resumed:
            record = self.store.swap(record, record.moved(
                states.COLLAPSING, fenced=fenced, labels=labels))
        elif (fenced, labels) != (record.fenced, record.labels):
            record = self.store.swap(record, dataclasses.replace(
                record, fenced=fenced, labels=labels, updated_at=records.now()))
        report = self._decide(record, clients, resumed=resumed, decide=decide)
        return dataclasses.replace(report, durable_s=durable_s,
                                   total_s=time.monotonic() - began)

    def _decide(self, record: records.Record, clients: frozenset[str], *,
                resumed: bool, decide: bool) -> CollapseReport:
        first = sweep.SweepReport(False, None, 0, 0.0)
        renewal = renewals.Renewal(self.store, record, self.settings.stale_after_s)
        if decide:
            first = self._sweep_renewed(renewal, thorough=False)
        record = renewal.record
        if not first.clean and not (resumed and self._was_fenced(record)):
            outcome = states.DIRTY if first.dirty else states.UNPROVEN
            LOG.info('superposition %s is %s, deciding for the primary: %s', record.id, outcome,
                     first.first)
            self._drop(record, outcome)
            return CollapseReport(outcome, first)
        swept = time.monotonic()
        known = set(clients)
        with self._unfenced_if_lost(record, known):
            if self.reload(record).version != record.version:
                raise errors.RecordChanged(
                    f'superposition {record.id} was changed by another controller meanwhile; '
                    f'look at it again')
            fencing = time.monotonic()
            with trace.span('fence', record.id):
                self.fence.close(clients)
            closed = time.monotonic()
            renewal.renew()
            # Before the sweep: any client that has the lock after this is among those that the
            # sweep is followed by a look at.
            self._latch(record)
            second = self._behind_fence(renewal, known)
            record = renewal.record
            report = CollapseReport(
                states.PROMOTED if second.clean else states.LATE_DIRTY, first, second,
                fence_s=closed - fencing, window_s=closed - swept)
            if second.clean:
                self._assert_durable(record)
                self._assert_fenced(record)
            if not decide:
                return self._prepared(record, report)
            if not second.clean:
                LOG.warning('superposition %s is late dirty, its fenced primary has to be '
                            'started again: %s', record.id, second.first)
                self._drop(record, states.LATE_DIRTY)
                return report
            committing = time.monotonic()
            self._commit(record)
        return dataclasses.replace(report, commit_s=time.monotonic() - committing)

    def _assert_fenced(self, record: records.Record) -> None:
        """Make sure that every client in the ledgers is fenced, or is the backup's.

        The steps before should have fenced them all: this looks once more, by ledger and blocklist
        alone, since a promotion cannot be taken back.

        :raises ClusterError: a client is not fenced; the superposition is collapsing, and may be
            resumed
        """
        noted = ledgers.Entry(ledgers.BACKUP, record.id)
        others = {client for client, entry in self._entries(record).items() if entry != noted}
        others -= self._users(record)
        if unfenced := self.fence.outside(others):
            raise errors.ClusterError(
                f'superposition {record.id} cannot be promoted: its ledgers have clients that are '
                f'not fenced: {errors.named(unfenced)}; resume it')

    def _assert_durable(self, record: records.Record) -> None:
        """Make sure that no write that a backup has acknowledged can be missing from an overlay.

        A backup ignores flushes until its disks are made durable. If it has died before that, an
        entry of the qcow2 tables may be in Ceph, and the block that it names not.

        :raises BackupError: an overlay was written, and no backup has made its disks durable
        """
        if record.labels.get(records.DURABLE):
            return
        written = self._each(lambda volume: overlay.is_written(self.cluster, volume),
                             record.volumes)
        if any(written):
            names = ', '.join(str(volume.overlay_ref) for volume, each in zip(
                record.volumes, written, strict=True) if each)
            raise errors.BackupError(
                f'superposition {record.id} cannot be promoted: a backup has written to {names}, '
                f'and may have died before its writes were durable. Name the backup that runs, so '
                f'that its disks become durable first. If none runs, abort: the version of the '
                f'primary is complete')

    def _prepared(self, record: records.Record, report: CollapseReport) -> CollapseReport:
        late = report.outcome == states.LATE_DIRTY
        self.store.swap(record, dataclasses.replace(
            record, prepared=True, updated_at=records.now(),
            outcome=states.LATE_DIRTY if late else None))
        return report if late else dataclasses.replace(report, outcome=states.PREPARED)

    def _behind_fence(self, renewal: renewals.Renewal, known: set[str]) -> sweep.SweepReport:
        """Sweep until no client of the primary was outside the fence before the sweep began.

        :param known: the fenced clients; clients that are fenced here are added
        """
        before = frozenset(known)
        for _ in range(_FENCE_ROUNDS):
            report = self._sweep_renewed(renewal, thorough=True)
            clients = self._primary(renewal.record, attended=True)
            # Also if it is not clean: a newcomer would write beside the primary that is
            # started again.
            if clients <= known:
                return report
            known |= clients
            renewal.record = self._fencing(renewal.record, tuple(sorted(known)))
            self.fence.close(clients)
        raise errors.ClusterError(
            f'new clients keep opening the volumes of superposition {renewal.record.id}: '
            f'{", ".join(sorted(known - before))}')

    def _latch(self, record: records.Record) -> None:
        """Keep every client that does not have a volume's lock from taking it."""
        def close(volume: records.Volume) -> None:
            # The sweep proves nothing without the image.
            with contextlib.suppress(errors.VolumeGone):
                self.latch.close(volume, record.id)
        with trace.span('latch', record.id):
            self._each(close, record.volumes)

    def _was_fenced(self, record: records.Record) -> bool:
        """Report whether an interrupted collapse has fenced any client.

        Its last request may not have taken effect: the monitors commit about once a second.
        """
        time.sleep(_SETTLE_S)
        return bool(self.fence.remaining(record.fenced))

    @contextlib.contextmanager
    def _unfenced_if_lost(self, record: records.Record, known: set[str]) -> Iterator[None]:
        """Remove the fence if another controller decided for the primary before the commit.

        The other controller removes it, too, but an election of monitors may have delayed the
        entries of this one until after that.
        """
        try:
            yield
        except (errors.RecordChanged, errors.NotSuperposed):
            self._unfence_lost(dataclasses.replace(record, fenced=tuple(known)))
            raise

    def _primary(self, record: records.Record, *, attended: bool) -> frozenset[str]:
        """Return the clients to fence, after all visible clients are in the ledgers.

        :param attended: the caller has made the disks of the backup durable, if one runs
        :raises OverlayBusy: a backup runs whose acknowledged writes may not be durable, or it is
            not clear which clients are its own
        """
        observed = self._classified(record, attended=attended)
        # An OSD may list a dead client as a watcher for ever, until an operator fences the client.
        if not attended and (running := self.fence.outside(observed.backup)):
            raise errors.OverlayBusy(
                f'a backup has the overlays of superposition {record.id} open', running,
                'collapse it through its hypervisor, so that its disks become durable first, or '
                'abort')
        return observed.fenced
