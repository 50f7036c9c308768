# SPDX-License-Identifier: Apache-2.0
"""The child version as QEMU sees it: block nodes, and a backup driven through QMP."""

from collections.abc import Callable, Mapping
import contextlib
import time
from typing import Any

from qemu import qmp
from qemu.qmp import legacy

from specreds_cinder.superposition import backup as backups
from specreds_cinder.superposition import cluster as ceph
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import trace

Node = dict[str, Any]

_POLL = 0.05
_TIMEOUT = 30.0


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
        """Honour flushes from now on, and flush; see :class:`backup.Backup`."""
        options: list[Node] = []
        for prefix, volume in self._disks(record):
            options += overlay_nodes(self._cluster, volume, speculative=False, prefix=prefix)[1:]
        with self._session() as run:
            # A reopen flushes each node before it changes it: the first one switches flushes
            # on, the second one flushes for real.
            run('blockdev-reopen', options=options)
            run('blockdev-reopen', options=options)

    def converge(self, record: records.Record, rate: int,
                 progress: backups.Progress | None) -> None:
        """Mirror each overlay's own data into its volume; see :class:`backup.Backup`.

        A write-blocking mirror, unlike a commit, also converges against a guest that writes
        faster than the copy runs.
        """
        with self._session() as run:
            there = self._nodes(run)
            for prefix, volume in self._disks(record):
                if prefix not in there or _job(prefix) in self._jobs(run):
                    continue
                target = f'{prefix}-target'
                if target not in there:
                    run('blockdev-add', **base_node(self._cluster, volume, target,
                                                    read_only=False))
                with trace.change('merge.start', str(volume.ref)):
                    run('blockdev-mirror', **{
                        'job-id': _job(prefix), 'device': prefix, 'target': target,
                        'sync': 'top', 'copy-mode': 'write-blocking', 'speed': rate,
                        'auto-dismiss': False})
            self._wait(run, {'ready', 'concluded'}, progress, None)

    def suspend(self) -> None:
        """Stop the guest."""
        self._guest('stop', True)

    def switch(self, record: records.Record) -> None:
        """Complete the mirrors; see :class:`backup.Backup`."""
        with self._session() as run:
            for prefix, volume in self._disks(record):
                if self._jobs(run).get(_job(prefix), {}).get('status') == 'ready':
                    with trace.change('merge.switch', str(volume.ref)):
                        run('job-complete', id=_job(prefix))
            self._wait(run, {'concluded'}, None, _TIMEOUT)
            for job, facts in self._jobs(run).items():
                run('job-dismiss', id=job)
                if facts.get('error'):
                    raise errors.BackupError(f'{job} failed in the backup: {facts["error"]}')

    def proceed(self) -> None:
        """Let the guest run."""
        self._guest('cont', False)

    def release(self, record: records.Record) -> None:
        """Remove the overlays' nodes, and with them their watches."""
        with self._session() as run:
            there = self._nodes(run)
            for prefix, _volume in self._disks(record):
                for node in (prefix, f'{prefix}-file', f'{prefix}-base'):
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

    def _wait(self, run: Callable[..., Any], states: set[str],
              progress: backups.Progress | None, timeout: float | None) -> None:
        began = time.monotonic()
        while True:
            jobs = self._jobs(run).values()
            failed = [job for job in jobs if job.get('error')]
            if failed:
                raise errors.BackupError(
                    f'{failed[0]["id"]} failed in the backup: {failed[0]["error"]}')
            if progress is not None and jobs:
                progress(sum(job['current-progress'] for job in jobs),
                         sum(job['total-progress'] for job in jobs))
            if all(job['status'] in states for job in jobs):
                return
            if timeout is not None and time.monotonic() - began > timeout:
                raise errors.BackupError(
                    f'the backup at {self._socket} did not finish its merge within '
                    f'{timeout:g} s')
            time.sleep(_POLL)

    @contextlib.contextmanager
    def _session(self) -> 'Any':
        monitor = legacy.QEMUMonitorProtocol(self._socket)
        try:
            monitor.connect()
            monitor.settimeout(_TIMEOUT)
            yield monitor.cmd
        except (OSError, qmp.QMPError, TimeoutError) as exc:
            raise errors.BackupError(f'backup at {self._socket}: {exc}') from exc
        finally:
            with contextlib.suppress(Exception):
                monitor.close()


def _job(prefix: str) -> str:
    return f'merge-{prefix}'
