# SPDX-License-Identifier: Apache-2.0
"""The child version as QEMU sees it: block nodes, and a backup driven through QMP."""

from collections.abc import Callable, Mapping
import contextlib
import logging
import sys
import time
from typing import Any

from qemu import qmp
from qemu.qmp import legacy
import tenacity

from specreds_cinder.superposition import backup as backups
from specreds_cinder.superposition import cluster as ceph
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import trace

Node = dict[str, Any]

LOG = logging.getLogger(__name__)

_POLL = 0.02
_TIMEOUT = 60.0
# So little is copied in a fraction of a second, while the guest stands still.
_ENOUGH = 16 << 20
# How long a merge may get no nearer to its end before its limit is raised, by how much, and up to
# where. A guest's kernel writes back what is old every 5 s: only what lasts longer is no burst.
# And as little more as it takes, for what the merge takes, the guest does not get.
_PATIENCE = 10.0
_MORE = 1.5
_FAST = 1 << 30
# So much is left as long as nobody has counted it.
UNKNOWN = sys.maxsize


def base_node(cluster: ceph.Cluster, volume: records.Volume, name: str, *,
              read_only: bool) -> Node:
    """Describe the volume's own RBD image as a block node, as durable as Nova's default."""
    return _rbd(cluster, volume, volume.image, name, {'direct': True, 'no-flush': False},
                **{'read-only': read_only})


def overlay_nodes(cluster: ceph.Cluster, volume: records.Volume, *, speculative: bool = True,
                  prefix: str = 'sp0') -> list[Node]:
    """Describe the child version as block nodes, in the order to add them.

    The header names no backing file, so the chain is explicit. The top node is named ``prefix``.

    :param speculative: do not force out what the guest flushes; False once it must be durable
    """
    cache = {'direct': False, 'no-flush': speculative}
    return [
        base_node(cluster, volume, f'{prefix}-base', read_only=True),
        _rbd(cluster, volume, volume.overlay, f'{prefix}-file', cache),
        {'driver': 'qcow2', 'node-name': prefix, 'file': f'{prefix}-file',
         'backing': f'{prefix}-base', 'discard': 'unmap', 'cache': cache,
         # Each guest flush writes out the dirty L2 entries: by 4 KiB, not by cluster.
         'l2-cache-entry-size': 4096},
    ]


def offline_chain(cluster: ceph.Cluster, volume: records.Volume) -> Node:
    """Describe the child version as one nested node, for QEMU's offline tools."""
    base, file, top = overlay_nodes(cluster, volume, speculative=False)
    for node in (base, file, top):
        del node['node-name']
    del base['read-only']
    return {**top, 'file': file, 'backing': base}


def _rbd(cluster: ceph.Cluster, volume: records.Volume, image: str, name: str,
         cache: Mapping[str, bool], **more: object) -> Node:
    place = {'namespace': volume.namespace} if volume.namespace else {}
    return {'driver': 'rbd', 'node-name': name, 'pool': volume.pool, **place, 'image': image,
            'conf': cluster.conffile, 'user': cluster.user, 'discard': 'unmap',
            'cache': dict(cache), **more}


class Approach:
    """Finds how fast a copy has to be while somebody adds to what there is to copy.

    :ivar rate: bytes per second that it may do, 0 for no limit
    """

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._least = UNKNOWN
        self._since: float | None = None

    def __str__(self) -> str:
        return f'{self.rate / (1 << 20):.1f} MiB/s' if self.rate else 'none'

    def stuck(self, left: int, now: float) -> bool:
        """Tell whether it has not got noticeably nearer to its end for too long.

        Noticeable is a tenth of what the limit allows in that time, or without a limit, a tenth
        of what is left: of much that is left, a tenth may rightly take hours under a limit.

        :param left: bytes still to be copied
        :param now: seconds on the monotonic clock
        """
        step = self.rate * _PATIENCE / 10 if self.rate else self._least / 10
        if self._since is None or left <= self._least - step:
            self._least, self._since = left, now
        return now - self._since > _PATIENCE

    def hurry(self, left: int, now: float) -> None:
        """Raise the limit of what is stuck, and see how far it gets with that.

        To what is added in the same time at least: nothing less can be enough. The parameters are
        those of :meth:`stuck`.
        """
        assert self._since is not None
        growth = (left - self._least) / (now - self._since)
        more = int(max(_MORE * self.rate, self.rate + growth))
        self.rate = more if self.rate < _FAST else 0
        self._since = None


def approach(name: str, rate: int, enough: int, left: Callable[[], int],
             limit: Callable[[int], None], wait: Callable[[int, int], None]) -> None:
    """Wait until so little is left to copy that its guest can stand still for it.

    Where the guest writes as fast as the copy runs, the limit is raised until it does not; where
    that does not help, it is given up.

    :param name: of what is merged, for the log
    :param rate: the first limit, in bytes per second, 0 for none
    :param enough: bytes that are so little
    :param left: gives the bytes that are still to be copied, :data:`UNKNOWN` at first
    :param limit: sets another limit
    :param wait: called with the bytes that are left and the limit between two looks
    """
    speed = Approach(rate)
    while (still := left()) > enough:
        now = time.monotonic()
        if speed.stuck(still, now):
            if not speed.rate:
                LOG.warning('the guest of %s writes as fast as its overlays can be merged: it '
                            'will stand still while %d MiB are copied', name, still >> 20)
                return
            speed.hurry(still, now)
            LOG.info('%s: limit of the merge: %s', name, speed)
            limit(speed.rate)
        wait(still, speed.rate)


class QmpBackup(backups.Backup):
    """A backup whose QEMU, or qemu-storage-daemon, listens on a QMP socket.

    Its disks were added as :func:`overlay_nodes` describes them.

    :param socket: path of the QMP socket; each step connects anew
    :param prefixes: the prefix of each volume's nodes, in the order of the record
    :param quiesce: for a qemu-storage-daemon, which has no guest to suspend: stops (True) and
        lets go (False) whoever writes to its exports
    """

    def __init__(self, cluster: ceph.Cluster, socket: str, prefixes: list[str],
                 quiesce: Callable[[bool], None] | None = None) -> None:
        self._cluster = cluster
        self._socket = socket
        self._prefixes = prefixes
        self._quiesce = quiesce

    def make_durable(self, record: records.Record) -> None:
        """Honour flushes from now on, and flush; see :class:`backup.Durability`."""
        options: list[Node] = []
        for prefix, volume in self._disks(record):
            options += overlay_nodes(self._cluster, volume, speculative=False, prefix=prefix)[1:]
        with self._session() as run:
            run('blockdev-reopen', options=options)
            # A reopen flushes each node before it changes it: the first one still as a flush
            # that is not forced out, after which QEMU takes the node for flushed until something
            # is written to it. Writing the header anew, as it is, makes the second one real.
            for prefix, _volume in self._disks(record):
                run('change-backing-file', **{'device': prefix, 'image-node-name': prefix,
                                              'backing-file': ''})
            run('blockdev-reopen', options=options)

    def converge(self, record: records.Record, rate: int,
                 progress: backups.Progress | None) -> None:
        """Commit each overlay into its volume; see :class:`backup.OnlineMerge`.

        The copy need not be complete: :meth:`settle` copies the rest while the guest stands
        still, so little has to be left. Where the guest writes as fast as the copy runs, the
        limit is raised until it does not.
        """
        with self._session() as run:
            there = self._nodes(run)
            for prefix, volume in self._disks(record):
                if prefix not in there or _job(prefix) in self._jobs(run):
                    continue
                with trace.change('merge.start', str(volume.ref)):
                    run('block-commit', **{
                        'job-id': _job(prefix), 'device': prefix, 'top-node': prefix,
                        'base-node': f'{prefix}-base', 'speed': rate, 'auto-dismiss': False})
            approach(f'backup at {self._socket}', rate, _ENOUGH,
                     lambda: self._left(run, progress),
                     lambda raised: self._limit(run, raised),
                     lambda _left, _rate: time.sleep(_POLL))

    def suspend(self) -> None:
        """Stop the guest."""
        self._guest('stop', True)

    def settle(self, record: records.Record) -> None:
        """Copy the rest; see :class:`backup.OnlineMerge`.

        The volumes' nodes bypass caches, so that what is copied is durable.
        """
        with self._session() as run:
            self._limit(run, 0)
            self._wait(run, self._settled)

    def switch(self, record: records.Record) -> None:
        """Let the disks use the volumes; see :class:`backup.OnlineMerge`."""
        with self._session() as run:
            for prefix, volume in self._disks(record):
                if self._jobs(run).get(_job(prefix), {}).get('status') == 'ready':
                    with trace.change('merge.switch', str(volume.ref)):
                        run('job-complete', id=_job(prefix))
            self._wait(run, lambda run: all(
                job['status'] == 'concluded' for job in self._working(run)))
            for job in self._jobs(run):
                run('job-dismiss', id=job)

    def proceed(self) -> None:
        """Let the guest run."""
        self._guest('cont', False)

    def release(self, record: records.Record) -> None:
        """Remove the overlays' nodes, and with them their watches."""
        with self._session() as run:
            there = self._nodes(run)
            for prefix, _volume in self._disks(record):
                for node in (prefix, f'{prefix}-file'):
                    if node in there:
                        run('blockdev-del', **{'node-name': node})

    def _disks(self, record: records.Record) -> list[tuple[str, records.Volume]]:
        return list(zip(self._prefixes, record.volumes, strict=True))

    def _guest(self, command: str, quiet: bool) -> None:
        if self._quiesce is not None:
            self._quiesce(quiet)
            return
        with self._session() as run:
            run(command)

    def _nodes(self, run: Callable[..., Any]) -> set[str]:
        return {node['node-name'] for node in run('query-named-block-nodes', flat=True)}

    def _jobs(self, run: Callable[..., Any]) -> dict[str, Any]:
        ours = {_job(prefix) for prefix in self._prefixes}
        return {job['id']: job for job in run('query-jobs') if job['id'] in ours}

    def _left(self, run: Callable[..., Any], progress: backups.Progress | None) -> int:
        """Give the bytes that are still to be copied; 0 once every job has been through."""
        jobs = self._working(run)
        total: int = sum(job['total-progress'] for job in jobs)
        done: int = sum(job['current-progress'] for job in jobs)
        if progress is not None and jobs:
            progress(done, total)
        if all(job['status'] in ('ready', 'concluded') for job in jobs):
            return 0
        # Before a job has counted what there is, nothing seems to be left.
        return total - done if total else UNKNOWN

    def _limit(self, run: Callable[..., Any], rate: int) -> None:
        for job in self._working(run):
            if job['status'] != 'concluded':
                run('block-job-set-speed', device=job['id'], speed=rate)

    def _wait(self, run: Callable[..., Any],
              reached: Callable[[Callable[..., Any]], bool]) -> None:
        began = time.monotonic()
        while not reached(run):
            if time.monotonic() - began > _TIMEOUT:
                raise errors.BackupError(
                    f'the backup at {self._socket} did not finish its merge within '
                    f'{_TIMEOUT:g} s')
            time.sleep(_POLL)

    def _settled(self, run: Callable[..., Any]) -> bool:
        """Return whether nothing is left to copy while nothing is written.

        A job counts what was written last only some time later, so the bitmap of what is to be
        copied comes first: once it is empty, the job has begun with everything and counts it.
        """
        nodes = {node['node-name']: node for node in run('query-named-block-nodes', flat=True)}
        for name in (name for prefix in self._prefixes for name in (prefix, f'{prefix}-file')):
            # A bitmap that has a name belongs to somebody else.
            if any(bitmap['count'] and 'name' not in bitmap
                   for bitmap in nodes.get(name, {}).get('dirty-bitmaps', ())):
                return False
        return all(job['status'] == 'concluded' or (
            job['status'] == 'ready' and job['current-progress'] == job['total-progress'])
            for job in self._working(run))

    def _working(self, run: Callable[..., Any]) -> list[dict[str, Any]]:
        """List our jobs, none of which has failed."""
        jobs = list(self._jobs(run).values())
        for job in jobs:
            if job.get('error'):
                raise errors.BackupError(f'{job["id"]} failed in the backup: {job["error"]}')
        return jobs

    @contextlib.contextmanager
    def _session(self) -> Any:
        try:
            monitor = _connect(self._socket)
        except (OSError, qmp.QMPError) as exc:
            raise errors.BackupError(f'backup at {self._socket}: {exc}') from exc
        try:
            monitor.settimeout(_TIMEOUT)
            yield monitor.cmd
        except (OSError, qmp.QMPError, TimeoutError) as exc:
            raise errors.BackupError(f'backup at {self._socket}: {exc}') from exc
        finally:
            with contextlib.suppress(Exception):
                monitor.close()


@tenacity.retry(retry=tenacity.retry_if_exception_type(qmp.ConnectError), reraise=True,
                wait=tenacity.wait_fixed(0.05), stop=tenacity.stop_after_attempt(10))
def _connect(socket: str) -> legacy.QEMUMonitorProtocol:
    """Connect to a QMP socket.

    An event of a running job that comes in between makes the greeting fail: try again.
    """
    monitor = legacy.QEMUMonitorProtocol(socket)
    monitor.connect()
    return monitor


def _job(prefix: str) -> str:
    return f'merge-{prefix}'
