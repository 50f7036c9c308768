# SPDX-License-Identifier: Apache-2.0
"""The protocol: super, check, collapse, merge, and how to go on after a crash.

The record's state says what holds, and every step below may be repeated:

========== ==========================================================================
state      what holds
========== ==========================================================================
creating   claims and overlays may or may not exist; no backup has seen anything
superposed the cut is taken, the overlays exist; primary and backup may both run
collapsing a decision is under way; the primary may be fenced
promoted   the primary is fenced, the backup's version is the real one (commit point)
merging    some of the overlays' data may be in the volumes; the overlays still count
merged     the volumes hold everything; the overlays are about to go
aborting   the primary's version is the real one; the overlays are about to go
========== ==========================================================================
"""

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
import contextlib
import dataclasses
import functools
import logging
import operator
import threading
import time
from typing import Any, TypeVar

from specreds_cinder.superposition import address
from specreds_cinder.superposition import backup as backups
from specreds_cinder.superposition import cluster as ceph
from specreds_cinder.superposition import cut as cuts
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import fence
from specreds_cinder.superposition import ledger as ledgers
from specreds_cinder.superposition import merge as merges
from specreds_cinder.superposition import objectmap
from specreds_cinder.superposition import overlay
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import roles
from specreds_cinder.superposition import settings as tunables
from specreds_cinder.superposition import store as stores
from specreds_cinder.superposition import sweep
from specreds_cinder.superposition import trace
from specreds_cinder.superposition import volume as volumes

LOG = logging.getLogger(__name__)

_FENCE_ROUNDS = 3
_LOOK_S = 60.0
_SETTLE_S = 2.0

_T = TypeVar('_T')
_R = TypeVar('_R')


@dataclasses.dataclass(frozen=True)
class CollapseReport:
    """How a collapse went.

    :param outcome: promoted, dirty or late-dirty
    :param sweep1: the sweep before the fence
    :param sweep2: the sweep behind the fence, None if there was none
    :param durable_s: seconds until the backup's disks were durable
    :param fence_s: seconds from the first blocklist entry asked for to the osdmap in force
    :param window_s: seconds from the end of the first sweep until the fence was in force: a
        primary that writes within it is late dirty
    :param commit_s: seconds that the commit took
    :param total_s: all of it
    """

    outcome: str
    sweep1: sweep.SweepReport
    sweep2: sweep.SweepReport | None = None
    durable_s: float = 0.0
    fence_s: float = 0.0
    window_s: float = 0.0
    commit_s: float = 0.0
    total_s: float = 0.0


class Protocol:
    """Superpositions on one cluster. Safe to share between threads."""

    def __init__(self, cluster: ceph.Cluster,
                 settings: tunables.Settings | None = None) -> None:
        self.cluster = cluster
        self.settings = settings or tunables.Settings()
        self.store = stores.Store(cluster)
        self.ledger = ledgers.Ledger(cluster)
        self.fence = fence.Fence(cluster, self.settings.fence_expiry_s)
        self._cutters: dict[tuple[int, str], cuts.Cutter] = {}
        self._lock = threading.Lock()

    # Reading

    def show(self, superposition: str, home: records.Home) -> records.Record:
        """Read a superposition by its id and where its record lives.

        :raises NotSuperposed: there is none (any more)
        """
        return self.store.read(superposition, home)

    def reload(self, record: records.Record) -> records.Record:
        """Read a superposition again."""
        return self.store.read(record.id, record.home)

    def find(self, ref: records.VolumeRef) -> records.Record:
        """Find the superposition that a volume is in.

        :raises NotSuperposed: it is in none
        """
        try:
            with volumes.opened(self.cluster, ref) as image:
                claim = self.store.claimed(ref.home, image.id())
            if claim is not None:
                return self.store.read(claim.superposition, claim.home)
        except errors.VolumeGone:
            for record in self.list(ref.home):
                if ref in {volume.ref for volume in record.volumes}:
                    return record
        raise errors.NotSuperposed(f'volume {ref} is in no superposition')

    def list(self, home: records.Home) -> 'builtins.list[records.Record]':
        """List the superpositions that have a volume in a pool's namespace, oldest first."""
        found = []
        for superposition, entry in self.store.index(home).items():
            with contextlib.suppress(errors.NotSuperposed):
                found.append(self.store.read(superposition, entry.home))
        return sorted(found, key=lambda record: record.created_at)

    def overlay_bytes(self, record: records.Record) -> int:
        """Tell how much of a superposition's overlays exists in Ceph, in bytes."""
        return sum(self._each(lambda volume: overlay.used_bytes(self.cluster, volume),
                              record.volumes))

    def fence_left(self, record: records.Record) -> float | None:
        """Tell in how many seconds a superposition's fence expires; None if it has none."""
        left = self.fence.remaining()
        there = [left[client] for client in record.fenced if client in left]
        return min(there) if there else None

    def tidy(self, home: records.Home, older_s: float = 600) -> int:
        """Remove index entries whose record was never written, or is gone.

        :param older_s: leave younger ones alone: their record may just be on its way
        :returns: how many were removed
        """
        removed = 0
        for superposition, entry in self.store.index(home).items():
            if entry.age_s < older_s:
                continue
            try:
                self.store.read(superposition, entry.home)
            except errors.NotSuperposed:
                self.store.unlist(superposition, home)
                removed += 1
        return removed

    def label(self, record: records.Record, **labels: Any) -> records.Record:
        """Set some of a superposition's labels.

        It also makes a merge fail that runs meanwhile: whoever is about to open the overlays of a
        promoted superposition says so first.

        :raises RecordChanged: another controller changed the record in between
        """
        record = self.reload(record)
        return self.store.swap(record, dataclasses.replace(
            record, labels={**record.labels, **labels}))

    # super

    def super(self, refs: Sequence[records.VolumeRef], reason: str = '',
              server: str | None = None, *, superposition: str | None = None,
              joint: bool = False, labels: Mapping[str, Any] | None = None) -> records.Record:
        """Put a set of volumes into superposition: all of them, or none.

        The backup may read nothing of them before this returns.

        :param refs: the volumes of one server
        :param reason: why, for whoever looks at the record
        :param server: whose volumes they are, for whoever looks at the record
        :param superposition: its id, a UUID; by default a new one
        :param joint: it will be decided together with others: by :meth:`prepare` and
            :meth:`commit` instead of :meth:`collapse`
        :param labels: kept in the record, for the caller
        :raises InvalidInput: no volume, or one named twice
        :raises VolumeGone: a volume does not exist
        :raises NotEligible: a volume cannot be superposed
        :raises AlreadySuperposed: a volume is in a superposition
        :raises ClusterTimeout: Ceph did not answer in time
        """
        if not refs or len(set(refs)) != len(refs):
            raise errors.InvalidInput('name at least one volume, and each only once')
        began = time.monotonic()
        superposition = superposition or records.new_id()
        found = self._eligible(refs, superposition)
        now = records.now()
        record = self.store.create(records.Record(
            id=superposition, state=records.CREATING, volumes=found, created_at=now,
            changed_at=now, reason=reason, server=server, joint=joint,
            labels=dict(labels or {})))
        try:
            self._each(lambda volume: self.store.claim(volume, superposition, record.home),
                       record.volumes)
            record = self._take(record)
        except BaseException:
            self._undo(record)
            raise
        LOG.info('superposition %s of %s took %.0f ms', record.id,
                 ', '.join(str(ref) for ref in refs), (time.monotonic() - began) * 1e3)
        return record

    def _eligible(self, refs: Sequence[records.VolumeRef],
                  superposition: str) -> tuple[records.Volume, ...]:
        pools = self.cluster.pools()
        facts = self._each(lambda ref: volumes.inspect(self.cluster, ref), refs)
        for one in facts:
            if reasons := one.reasons(pools):
                raise errors.NotEligible(str(one.ref), reasons)
        return tuple(records.Volume(
            pool=one.ref.pool, namespace=one.ref.namespace, image=one.ref.image,
            image_id=one.image_id, pool_id=one.pool_id, data_pool_id=one.data_pool_id,
            data_pool=pools[one.data_pool_id].name, data_prefix=one.data_prefix, size=one.size,
            object_size=one.object_size, features=one.features,
            overlay=overlay.name(one.ref.image, superposition),
            clients=tuple(sorted(one.clients))) for one in facts)

    def _take(self, record: records.Record) -> records.Record:
        """Make the overlays and take the cuts, side by side; then the record says superposed."""
        pool_ids = sorted({pool_id for volume in record.volumes
                           for pool_id in (volume.pool_id, volume.data_pool_id)})
        with futures.ThreadPoolExecutor(len(pool_ids)) as executor:
            taking = {pool_id: executor.submit(
                self._cutter(pool_id, record.namespace_of(pool_id)).take)
                for pool_id in pool_ids}
            self._each(lambda volume: self._equip(volume, record.id), record.volumes)
            taken = {pool_id: future.result() for pool_id, future in taking.items()}
        mapped = self._each(lambda volume: self._mapped(volume, taken[volume.pool_id]),
                            record.volumes)
        return self.store.swap(record, record.moved(
            records.SUPERPOSED, cuts=taken, volumes=tuple(mapped)))

    def _equip(self, volume: records.Volume, superposition: str) -> None:
        """Enter the primary's clients into the ledger, and make the overlay."""
        self.ledger.enter(volume, volume.clients,
                          ledgers.Entry(ledgers.PRIMARY, superposition), replace=True)
        overlay.create(self.cluster, volume)

    def _mapped(self, volume: records.Volume, cut: records.Cut) -> records.Volume:
        """Note which objects exist at the cut.

        A map that has moved since the cut gets no fingerprint: no later sweep finds it clean.
        """
        with self.cluster.ioctx(volume.pool, volume.namespace) as io, \
                ceph.answering(f'read the object map of {volume.ref}'):
            digest = objectmap.digest(io, volume.image_id)
        if sweep.moved(self.cluster, volume, cut):
            digest = ''
        return dataclasses.replace(volume, map_digest=digest)

    def _cutter(self, pool_id: int, namespace: str) -> cuts.Cutter:
        with self._lock:
            key = (pool_id, namespace)
            if key not in self._cutters:
                self._cutters[key] = cuts.Cutter(
                    lambda: cuts.take(self.cluster, pool_id, namespace))
            return self._cutters[key]

    def _undo(self, record: records.Record) -> None:
        """Take a half-made superposition back; what cannot be is left to :meth:`resume`."""
        try:
            self._drop(self.reload(record), records.ABORTED)
        except errors.SuperError as exc:
            LOG.warning('superposition %s was left unfinished (%s): resume it', record.id, exc)

    # check

    def check(self, record: records.Record) -> sweep.SweepReport:
        """Sweep, and say clean or dirty. Changes nothing.

        :raises Conflict: it is decided already, or not superposed yet
        """
        record = self._in(record, records.SUPERPOSED, records.COLLAPSING)
        return self._sweep(record, thorough=False)

    def watch(self, record: records.Record, on_dirty: Callable[[sweep.SweepReport], None],
              objects_per_s: float | None = None) -> sweep.Watch:
        """Sweep in the background while the context lasts, until dirty.

        :param on_dirty: called once, in another thread
        :param objects_per_s: pace, by default that of the settings
        """
        return sweep.Watch(self.cluster, record, on_dirty,
                           pace=objects_per_s or self.settings.watch_objects_per_s)

    def _sweep(self, record: records.Record, *, thorough: bool) -> sweep.SweepReport:
        with trace.span('sweep', record.id):
            return sweep.Sweeper(self.cluster, record, thorough=thorough).run()

    # collapse

    def collapse(self, record: records.Record, promote: bool = True,
                 backup: backups.Durability | None = None) -> CollapseReport:
        """Decide which version is real: the backup's, unless the primary has written.

        :param promote: False is the same as :meth:`abort`
        :param backup: the backup that runs, so that its disks become durable first; None if
            nobody has the overlays open
        :returns: the outcome. After ``dirty`` the primary goes on as if nothing had been; after
            ``late-dirty`` it is fenced, and its version has every write it was told of: start it
            again.
        :raises Conflict: it is not superposed, or another controller decided meanwhile
        :raises BackupError: the backup's disks could not be made durable; still superposed
        :raises OverlayBusy: a backup runs, but none was given; still superposed
        :raises ClusterTimeout: Ceph did not answer in time; :meth:`resume` goes on
        """
        if not promote:
            self.abort(record)
            return CollapseReport(records.ABORTED, sweep.SweepReport(False, None, 0, 0.0))
        record = self._in(record, records.SUPERPOSED)
        self._alone(record)
        return self._collapse(record, backup)

    def prepare(self, record: records.Record,
                backup: backups.Durability | None = None) -> CollapseReport:
        """Do the part of a collapse from the fence on, for what is decided with others.

        Whoever decides has checked all of them before. Behind its fence a superposition stays
        what it is, so :meth:`commit` or :meth:`give_up` may come at any time. Preparing again
        what was cut off, or is prepared, is no error. Parameters and errors are those of
        :meth:`collapse`.

        :returns: the outcome: prepared, or late-dirty; either way it is fenced, and undecided
        """
        record = self._in(record, records.SUPERPOSED, records.COLLAPSING)
        return self._collapse(record, backup, decide=False)

    def commit(self, record: records.Record) -> None:
        """Decide for the backup, as others that were prepared with it have. May be repeated.

        :raises Conflict: it is not prepared
        """
        record = self.reload(record)
        if record.state in records.DECIDED:
            return
        if not record.prepared or record.outcome is not None:
            raise errors.Conflict(f'superposition {record.id} is {record.outcome or record.state} '
                                  f'and not prepared to be promoted', record.state)
        self._commit(record)

    def give_up(self, record: records.Record) -> None:
        """Decide for the primary, which is fenced already: it is late dirty.

        :raises Conflict: it is not prepared, or decided
        """
        record = self._in(record, records.COLLAPSING, records.ABORTING)
        if not record.prepared:
            raise errors.Conflict(
                f'superposition {record.id} is not prepared: a fenced write of its primary may '
                f'be on its way yet', record.state)
        self._drop(record, records.LATE_DIRTY)

    def _alone(self, record: records.Record) -> None:
        """:raises Conflict: the record may not be decided by itself"""
        if record.joint:
            raise errors.Conflict(
                f'superposition {record.id} is decided together with others: prepare and commit '
                f'it where they are', record.state)

    def _commit(self, record: records.Record) -> None:
        with trace.span('commit', record.id):
            self.store.swap(record, record.moved(records.PROMOTED, outcome=records.PROMOTED))
        LOG.info('superposition %s is promoted', record.id)

    def _collapse(self, record: records.Record, backup: backups.Durability | None, *,
                  decide: bool = True) -> CollapseReport:
        began = time.monotonic()
        if backup is not None:
            with trace.span('durable', record.id):
                backup.make_durable(record)
        durable_s = time.monotonic() - began
        clients = self._primary(record, attended=backup is not None) | set(record.fenced)
        fenced = tuple(sorted(clients))
        resumed = record.state == records.COLLAPSING
        if not resumed:
            record = self.store.swap(record, record.moved(records.COLLAPSING, fenced=fenced))
        elif fenced != record.fenced:
            record = self._fencing(record, fenced)
        report = self._decide(record, clients, resumed=resumed, decide=decide)
        return dataclasses.replace(report, durable_s=durable_s,
                                   total_s=time.monotonic() - began)

    def _decide(self, record: records.Record, clients: frozenset[str], *,
                resumed: bool, decide: bool) -> CollapseReport:
        first = (self._sweep(record, thorough=False) if decide
                 else sweep.SweepReport(False, None, 0, 0.0))
        if first.dirty and not (resumed and self._was_fenced(record)):
            LOG.info('superposition %s is dirty: %s', record.id, first.first)
            self._drop(record, records.DIRTY)
            return CollapseReport(records.DIRTY, first)
        swept = time.monotonic()
        known = set(clients)
        with self._unfenced_if_lost(record, known):
            if self.reload(record).version != record.version:
                raise errors.RecordChanged(
                    f'superposition {record.id} was changed by another controller meanwhile; '
                    f'look at it again')
            asked = time.monotonic()
            with trace.span('fence', record.id):
                self.fence.close(clients)
            closed = time.monotonic()
            second, record = self._behind_fence(record, known)
            report = CollapseReport(
                records.LATE_DIRTY if second.dirty else records.PROMOTED, first, second,
                fence_s=closed - asked, window_s=closed - swept)
            if not decide:
                return self._prepared(record, report)
            if second.dirty:
                LOG.warning('superposition %s is late dirty: %s', record.id, second.first)
                self._drop(record, records.LATE_DIRTY)
                return report
            committing = time.monotonic()
            self._commit(record)
        return dataclasses.replace(report, commit_s=time.monotonic() - committing)

    def _prepared(self, record: records.Record, report: CollapseReport) -> CollapseReport:
        late = report.outcome == records.LATE_DIRTY
        self.store.swap(record, dataclasses.replace(
            record, prepared=True, changed_at=records.now(),
            outcome=records.LATE_DIRTY if late else None))
        return report if late else dataclasses.replace(report, outcome=records.PREPARED)

    def _behind_fence(self, record: records.Record, known: set[str]
                      ) -> tuple[sweep.SweepReport, records.Record]:
        """Sweep until no client of the primary was outside the fence before the sweep began.

        :param known: the clients that are fenced; those found and fenced here are added
        """
        clients = frozenset(known)
        for _ in range(_FENCE_ROUNDS):
            report = self._sweep(record, thorough=True)
            now = self._primary(record, attended=True)
            # Also where the report is dirty: a newcomer would write beside the version that is
            # started again.
            if now <= known:
                return report, record
            known |= now
            record = self._fencing(record, tuple(sorted(known)))
            self.fence.close(now)
        raise errors.ClusterError(
            f'new clients keep opening the volumes of superposition {record.id}: '
            f'{", ".join(sorted(known - clients))}')

    def _was_fenced(self, record: records.Record) -> bool:
        """Tell whether a collapse that was cut off came to fence anyone.

        What it asked for last may be on its way yet: the monitors commit about once a second.
        """
        time.sleep(_SETTLE_S)
        return not self.fence.remaining().keys().isdisjoint(record.fenced)

    def _fencing(self, record: records.Record, clients: tuple[str, ...]) -> records.Record:
        """Note whom we are about to fence."""
        return self.store.swap(record, dataclasses.replace(
            record, fenced=clients, changed_at=records.now()))

    @contextlib.contextmanager
    def _unfenced_if_lost(self, record: records.Record, known: set[str]) -> Iterator[None]:
        """Take our fence back if another controller let the primary live before we committed.

        That one took it back, too; but our entries may have waited for an election of monitors
        until it was done.
        """
        try:
            yield
        except (errors.RecordChanged, errors.NotSuperposed):
            self._unfence_lost(dataclasses.replace(record, fenced=tuple(known)))
            raise

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

    def _primary(self, record: records.Record, *, attended: bool) -> frozenset[str]:
        """Return the clients to fence, after all that can be seen are in the ledgers.

        :param attended: the backup, if one runs, is in our hands
        :raises OverlayBusy: it is not: what it was told is written may be in no disk yet
        """
        found = self.observe(record, attended=attended)
        if found.backup and not attended:
            raise errors.OverlayBusy(
                f'a backup has the overlays of superposition {record.id} open at '
                f'{", ".join(sorted(found.backup))}: collapse it through its hypervisor, so that '
                f'its disks become durable first, or stop it')
        return found.fenced

    def observe(self, record: records.Record, *, attended: bool = True) -> roles.Roles:
        """Enter every client that has a volume or its overlay open into the ledgers.

        :param attended: as for :func:`roles.classify`
        :returns: what each of them is, and who else is in the ledgers
        :raises RecordChanged: another controller is removing the overlays
        """
        seen = self._each(self._look, record.volumes)
        if self.reload(record).state in (records.MERGED, records.ABORTING):
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

    def _users(self, refs: Sequence[records.VolumeRef]) -> frozenset[str]:
        """List the clients of several images, of which some may be gone."""
        def users(ref: records.VolumeRef) -> frozenset[str]:
            with contextlib.suppress(errors.VolumeGone):
                return volumes.clients(self.cluster, ref)
            return frozenset()
        return frozenset().union(*self._each(users, refs))

    # abort

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
        if record.state in records.DECIDED:
            raise errors.Conflict(
                f'superposition {record.id} is {record.state}: the version of the backup is the '
                f'real one, it can only be merged', record.state)
        self._drop(record, records.ABORTED, progress)

    def _drop(self, record: records.Record, outcome: str,
              progress: backups.Progress | None = None) -> None:
        if record.state != records.ABORTING:
            record = self.store.swap(record, record.moved(records.ABORTING, outcome=outcome))
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
        if record.outcome in (records.ABORTED, records.DIRTY) and record.fenced:
            self.fence.open(roles.living(record, self._entries(record)))

    def _entries(self, record: records.Record) -> ledgers.Entries:
        """Return the ledgers of all volumes of a record."""
        return {client: entry for entries in self._each(self.ledger.read, record.volumes)
                for client, entry in entries.items()}

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
        if record.outcome not in (records.PROMOTED, records.LATE_DIRTY) or not record.fenced:
            return
        proven = self.fence.remaining().keys() & set(record.fenced)
        self._each(lambda volume: self.ledger.leave(volume, proven), record.volumes)

    # merge

    def merge(self, record: records.Record, backup: backups.OnlineMerge | None = None,
              progress: backups.Progress | None = None, rate: int | None = None) -> None:
        """Write the overlays down into the volumes and end the superposition.

        :param backup: the backup that runs, for a merge under its guest; None for an offline
            merge of overlays that nobody has open
        :param progress: called with the bytes merged so far, and all of them
        :param rate: bytes per second at most, 0 for no limit; by default that of the settings
        :raises Conflict: it was not promoted
        :raises MergeFailed: the offline merge failed; nothing is lost, repeat it
        :raises OverlayBusy: somebody has an overlay open; nothing is lost, repeat it
        :raises RecordChanged: somebody is about to open an overlay; nothing is lost, repeat it
        :raises BackupError: the online merge failed; nothing is lost, repeat it
        """
        if backup is None:
            self.unused(record)
        record = self.begin_merge(record)
        if backup is None and record.state == records.MERGING:
            record = self._shut_out(record)
        if record.state == records.MERGING:
            limit = self.settings.merge_bytes_per_s if rate is None else rate
            with self._kept_fenced(record), trace.span('merge', record.id):
                if backup is None:
                    record = self._merge_offline(record, limit, progress)
                else:
                    record = self._merge_online(record, backup, limit, progress)
        elif backup is not None:
            self._switch(record, backup)
        # Whoever still has an overlay open is the server, which is about to let go of it.
        self._clean(record, evict=False)
        LOG.info('superposition %s is merged', record.id)

    def unused(self, record: records.Record) -> None:
        """Make sure that nobody has an overlay open.

        :raises OverlayBusy: somebody has
        """
        with contextlib.suppress(errors.VolumeGone):
            merges.unused(self.cluster, record)

    def _shut_out(self, record: records.Record) -> records.Record:
        """Fence everybody who may still write, so that only the merge does.

        Such as a backup that was promoted and hangs: its watches have expired, and what it was
        told of writes to an overlay that has been read already would be lost.

        :raises OverlayBusy: somebody has an overlay open: it is the server, which runs
        """
        found = self.observe(record, attended=False)
        self.unused(record)
        fenced = found.fenced | set(record.fenced)
        if fenced != set(record.fenced):
            record = self._fencing(record, tuple(sorted(fenced)))
        with trace.span('shut out', record.id):
            self.fence.close(fenced)
            sweep.barrier(self.cluster, record)
        late = self._entries(record).keys() - fenced
        if late:
            raise errors.OverlayBusy(
                f'{", ".join(sorted(late))} opened volumes or overlays of superposition '
                f'{record.id} while the other clients were fenced: merge it again')
        return record

    def begin_merge(self, record: records.Record) -> records.Record:
        """Note that a merge begins, for a hypervisor that drives it by itself.

        :raises Conflict: it was not promoted
        """
        record = self._in(record, records.PROMOTED, records.MERGING, records.MERGED)
        if record.state != records.PROMOTED:
            return record
        return self.store.swap(record, record.moved(records.MERGING))

    def end_merge(self, record: records.Record) -> None:
        """Note that overlay and volume are equal, and the guest stands still until this is over.

        From here on the volume is what is opened. The overlay goes with :meth:`merge`, as soon
        as the hypervisor has released it. May be repeated.

        :raises Conflict: no merge was begun
        """
        record = self._in(record, records.MERGING, records.MERGED)
        if record.state == records.MERGING:
            self._merged(record)

    def _merge_offline(self, record: records.Record, rate: int,
                       progress: backups.Progress | None) -> records.Record:
        try:
            merges.offline(self.cluster, record, self.ledger, rate, self.settings.merge_stall_s,
                           progress)
        except errors.VolumeGone:
            # Another controller was faster: it recorded the end before it removed the overlays.
            return self._in(record, records.MERGED)
        # Whoever was told meanwhile to open the overlays has changed the record.
        return self._merged(record)

    def _merge_online(self, record: records.Record, backup: backups.OnlineMerge, rate: int,
                      progress: backups.Progress | None) -> records.Record:
        """Merge under a running guest.

        Overlay and volume are equal from the end of :meth:`OnlineMerge.settle` until the guest
        goes on, so whichever of them the record names is right. The record changes before any
        disk is switched: until then the guest can go on with its overlays.
        """
        backup.converge(record, rate, progress)
        backup.suspend()
        try:
            backup.settle(record)
            merged = self._merged(record)
        except (errors.BackupError, errors.RecordChanged):
            # Nothing is switched. Where another controller has recorded the end meanwhile, it
            # switches and lets the guest go on itself.
            if self.reload(record).state == records.MERGING:
                backup.proceed()
            raise
        self._switch(merged, backup)
        return merged

    def _switch(self, record: records.Record, backup: backups.OnlineMerge) -> None:
        backup.switch(record)
        backup.proceed()
        backup.release(record)

    def _merged(self, record: records.Record) -> records.Record:
        return self.store.swap(record, record.moved(records.MERGED))

    @contextlib.contextmanager
    def _kept_fenced(self, record: records.Record) -> Iterator[None]:
        """Look after the fence as long as the context lasts."""
        ended = threading.Event()

        def keep() -> None:
            while not ended.wait(min(_LOOK_S, self.settings.fence_expiry_s / 4)):
                try:
                    self.fence.renew(record.fenced)
                except errors.SuperError:
                    LOG.exception('the fence of superposition %s could not be renewed',
                                  record.id)
        self.fence.renew(record.fenced)
        thread = threading.Thread(target=keep, daemon=True, name=f'fence-{record.id[:8]}')
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    # Going on

    def renew(self, record: records.Record) -> 'builtins.list[str]':
        """Re-arm what is left of a superposition's fence, if half of its expiry has passed.

        Who has what was promoted open is entered into the ledgers.

        :returns: the addresses that were blocklisted anew
        """
        record = self.reload(record)
        if record.state == records.COLLAPSING:
            # Whom a collapse that was cut off did not come to fence, only a decision may.
            return self.fence.renew(record.fenced, lapsed=False)
        if record.outcome in (records.PROMOTED, records.LATE_DIRTY):
            if record.state in (records.PROMOTED, records.MERGING):
                # A server that was promoted may have been started again since.
                with contextlib.suppress(errors.RecordChanged, errors.NotSuperposed):
                    self.observe(record)
            return self.fence.renew(record.fenced)
        return []

    def resume(self, record: records.Record, backup: backups.Durability | None = None,
               progress: backups.Progress | None = None) -> str:
        """Go on with whatever step was cut off, from the record alone.

        :returns: what became of it: superposed, promoted, merged, aborted, dirty or late-dirty
        :raises NotSuperposed: it has ended
        :raises Conflict: it was being decided together with others
        """
        record = self.reload(record)
        if record.state == records.COLLAPSING:
            self._alone(record)
            return self._collapse(record, backup).outcome
        if record.state in (records.MERGING, records.MERGED):
            online = backup if isinstance(backup, backups.OnlineMerge) else None
            if record.state == records.MERGING and backup is not None and online is None:
                raise errors.BackupError(
                    f'superposition {record.id} is merged by the hypervisor of its server: begin '
                    f'and end the merge there')
            self.merge(record, online, progress)
            return records.MERGED
        if record.state in (records.CREATING, records.ABORTING):
            self._drop(record, records.ABORTED, progress)
            return record.outcome or records.ABORTED
        return record.state

    def _in(self, record: records.Record, *states: str) -> records.Record:
        """Read a record again and make sure that it is in one of some states."""
        record = self.reload(record)
        if record.state not in states:
            raise errors.Conflict(
                f'superposition {record.id} is {record.state}, not {" or ".join(states)}',
                record.state)
        return record

    def _each(self, work: Callable[[_T], _R], items: Sequence[_T]) -> 'builtins.list[_R]':
        """Do the same for several volumes at a time; all of them end before an error is raised."""
        if len(items) == 1:
            return [work(items[0])]
        with futures.ThreadPoolExecutor(min(self.settings.workers, len(items))) as executor:
            pending = [executor.submit(work, item) for item in items]
        return [future.result() for future in pending]
