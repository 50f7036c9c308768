# SPDX-License-Identifier: Apache-2.0
"""A backup whose QEMU is driven through QMP."""

from collections.abc import Callable
import contextlib
import json
import time
from typing import Any

from qemu import qmp
from qemu.qmp import legacy
import tenacity

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.overlay import merge_rate
from specreds_cinder.superposition.overlay import nodes
from specreds_cinder.superposition.truth import record as records

_POLL = 0.02
_TIMEOUT = 60.0
# What the name of a node that is no file begins with; its options follow.
_OPTIONS = 'json:'
# Bytes that are copied in a fraction of a second, while the guest is stopped.
_ENOUGH = 1 << 20


class QmpBackup:
    """A backup whose QEMU, or qemu-storage-daemon, listens on a QMP socket.

    Its disks were added as :func:`nodes.overlay_nodes` describes them. Every step may be repeated
    after a crash.

    The order of a merge under a running guest is converge, suspend, settle; then the record says
    merged; then switch, proceed, release. The record comes before the switch, so that there is a
    way back until it is written, and so that no disk ever uses a volume whose overlay still counts
    (doc/models/Merge.tla).

    :param socket: path of the QMP socket; each step connects anew
    :param prefixes: the prefix of each volume's nodes, in the order of the record
    :param quiesce: for a qemu-storage-daemon, which has no guest: stops (True) and resumes
        (False) the writers to its exports
    """

    def __init__(self, cluster: ceph.Cluster, socket: str, prefixes: list[str],
                 quiesce: Callable[[bool], None] | None = None) -> None:
        self._cluster = cluster
        self._socket = socket
        self._prefixes = prefixes
        self._quiesce = quiesce

    def make_durable(self, record: records.Record) -> None:
        """Honour flushes from now on, and flush what was written before.

        When this returns, every acknowledged write of the backup survives a crash.

        :raises BackupError: the disks are not durable: the collapse must stop
        """
        with self._session() as run:
            opened = self._opened(run, record)
            options: list[nodes.Node] = []
            for prefix, volume in self._disks(record):
                _base, file, top = nodes.overlay_nodes(self._cluster, volume, speculative=False,
                                                       prefix=prefix)
                options += [file | _client(opened[file['node-name']]), top]
            run('blockdev-reopen', options=options)
            # A reopen flushes each node before it changes the node. The flush of the first reopen
            # is still ignored, but QEMU takes the node for flushed until its next write. An
            # unchanged header is written again, so that the second reopen flushes for real.
            for prefix, _volume in self._disks(record):
                run('change-backing-file', **{'device': prefix, 'image-node-name': prefix,
                                              'backing-file': ''})
            run('blockdev-reopen', options=options)

    def converge(self, record: records.Record, rate: int,
                 progress: trace.Progress | None) -> None:
        """Copy the overlays down into the volumes while the guest runs.

        The copy need not be complete, but little must be left: :meth:`settle` copies the rest
        while the guest is stopped. If the guest writes as fast as the copy runs, the limit is
        dropped.

        :param rate: bytes per second at most, 0 for no limit
        :param progress: called with the bytes copied and the bytes there are to copy
        :raises BackupError: the copy failed; the overlays are still what counts
        """
        with self._session() as run:
            self._opened(run, record)
            for prefix, volume in self._disks(record):
                if _job(prefix) in self._jobs(run):
                    continue
                with trace.change('merge.start', str(volume.ref)):
                    run('block-commit', **{
                        'job-id': _job(prefix), 'device': prefix, 'top-node': prefix,
                        'base-node': f'{prefix}-base', 'speed': rate, 'auto-dismiss': False})
            merge_rate.approach(f'backup at {self._socket}', rate, _ENOUGH,
                                lambda: self._look(run, progress),
                                lambda other: self._limit(run, other),
                                lambda: time.sleep(_POLL))

    def suspend(self) -> None:
        """Stop the guest, so that nothing is written until :meth:`proceed`."""
        self._guest('stop', True)

    def settle(self, record: records.Record) -> None:
        """Copy the rest, so that overlays and volumes are equal. The guest is suspended.

        The nodes of the volumes bypass caches, so that the copy is durable.

        :raises BackupError: some overlay holds more than its volume
        """
        with self._session() as run:
            self._opened(run, record)
            if missing := {_job(prefix) for prefix in self._prefixes} - self._jobs(run).keys():
                raise errors.BackupError(
                    f'the backup at {self._socket} has lost its jobs {", ".join(sorted(missing))}:'
                    f' repeat the merge')
            self._limit(run, 0)
            self._wait(run, self._settled)

    def switch(self, record: records.Record) -> None:
        """Let every disk use the volume instead of the overlay. The guest is suspended.

        :raises BackupError: some disk still uses its overlay
        """
        with self._session() as run:
            self._opened(run, record, switched=True)
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
        """Remove the nodes of the overlays, and with them their watches."""
        with self._session() as run:
            present = {node['node-name'] for node in _nodes(run)}
            for prefix, _volume in self._disks(record):
                for node in (prefix, f'{prefix}-file'):
                    if node in present:
                        run('blockdev-del', **{'node-name': node})

    def _disks(self, record: records.Record) -> list[tuple[str, records.Volume]]:
        return list(zip(self._prefixes, record.volumes, strict=True))

    def _guest(self, command: str, quiet: bool) -> None:
        if self._quiesce is not None:
            self._quiesce(quiet)
            return
        with self._session() as run:
            run(command)

    def _opened(self, run: Callable[..., Any], record: records.Record, *,
                switched: bool = False) -> dict[str, dict[str, Any]]:
        """Return the options with which QEMU has opened its nodes, by name of the node.

        :param switched: the disks may use their volumes already, without the overlays
        :raises BackupError: QEMU does not have the overlays and volumes of the record open
        """
        opened = {node['node-name']: _options(node['file']) for node in _nodes(run)}
        for prefix, volume in self._disks(record):
            images = {f'{prefix}-base': volume.ref, f'{prefix}-file': volume.overlay_ref}
            for name, ref in images.items():
                if name not in opened and (not switched or ref == volume.ref):
                    raise errors.BackupError(
                        f'the backup at {self._socket} has no block node {name}: does this QEMU '
                        f'run superposition {record.id}, and is the prefix of its nodes right?')
                if name in opened and _image(opened[name]) != ref:
                    raise errors.BackupError(
                        f'block node {name} of the backup at {self._socket} is not {ref}: name '
                        f'the QEMU that runs superposition {record.id}')
            top = opened.get(prefix, {})
            chain = [_image(top.get(child, {})) for child in ('backing', 'file')]
            if chain != list(images.values()) and (prefix in opened or not switched):
                raise errors.BackupError(
                    f'block node {prefix} of the backup at {self._socket} is not '
                    f'{volume.overlay_ref} over {volume.ref}')
        return opened

    def _jobs(self, run: Callable[..., Any]) -> dict[str, Any]:
        ours = {_job(prefix) for prefix in self._prefixes}
        return {job['id']: job for job in run('query-jobs') if job['id'] in ours}

    def _look(self, run: Callable[..., Any], progress: trace.Progress | None) -> merge_rate.Look:
        """Return how far the copy is."""
        jobs = self._working(run)
        total: int = sum(job['total-progress'] for job in jobs)
        done: int = sum(job['current-progress'] for job in jobs)
        if progress is not None and jobs:
            progress(done, total)
        # Before a job has counted its data, nothing seems to be left.
        counted = total or all(job['status'] in ('ready', 'concluded') for job in jobs)
        return merge_rate.Look(total - done if counted else merge_rate.UNKNOWN, done)

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
        """Report whether nothing is left to copy, while the guest is stopped.

        A job counts the latest writes with a delay, so the bitmap of dirty blocks is examined
        first: once it is empty, the job has begun to copy all of them and counts them.
        """
        by_name = {node['node-name']: node for node in _nodes(run)}
        for name in (name for prefix in self._prefixes for name in (prefix, f'{prefix}-file')):
            # A bitmap with a name is not of these jobs.
            if any(bitmap['count'] and 'name' not in bitmap
                   for bitmap in by_name.get(name, {}).get('dirty-bitmaps', ())):
                return False
        return all(job['status'] == 'concluded' or (
            job['status'] == 'ready' and job['current-progress'] == job['total-progress'])
            for job in self._working(run))

    def _working(self, run: Callable[..., Any]) -> list[dict[str, Any]]:
        """Return the jobs of this merge.

        :raises BackupError: a job has failed
        """
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

    An event of a running job may come before the greeting and make it fail, so this tries again.
    """
    monitor = legacy.QEMUMonitorProtocol(socket)
    monitor.connect()
    return monitor


def _nodes(run: Callable[..., Any]) -> list[dict[str, Any]]:
    nodes_of: list[dict[str, Any]] = run('query-named-block-nodes', flat=True)
    return nodes_of


def _options(file: str) -> dict[str, Any]:
    """Return the options that the name of a node tells; none of a node that is a file.

    :param file: how QEMU names the node
    """
    options: dict[str, Any] = (json.loads(file.removeprefix(_OPTIONS))
                               if file.startswith(_OPTIONS) else {})
    return options


def _image(options: dict[str, Any]) -> records.VolumeRef | None:
    """Return the RBD image that a node with some options is; None if it is none."""
    if options.get('driver') != 'rbd' or 'snapshot' in options:
        return None
    return records.VolumeRef(*(options.get(key, '') for key in ('pool', 'namespace', 'image')))


def _client(options: dict[str, Any]) -> nodes.Node:
    """Return the options by which QEMU has connected a node, which a reopen may not change.

    A backup may have a ceph.conf of its own.
    """
    return {name: options[name] for name in ('conf', 'user') if name in options}


def _job(prefix: str) -> str:
    return f'merge-{prefix}'
