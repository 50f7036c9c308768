# SPDX-License-Identifier: Apache-2.0
"""The offline merge: ``qemu-img commit`` writes an overlay that no client has open to its volume.

The overlay stays unchanged until the record says merged, so an interrupted merge can be repeated.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
import contextlib
import fcntl
import json
import logging
import mmap
import os
import re
import selectors
import subprocess
import time
from typing import IO

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.exclusion import fence
from specreds_cinder.superposition.exclusion import ledger as ledgers
from specreds_cinder.superposition.overlay import nodes
from specreds_cinder.superposition.overlay import overlay
from specreds_cinder.superposition.truth import record as records

LOG = logging.getLogger(__name__)

_POLL_S = 0.05
_PERCENT = re.compile(rb'\((\d+(?:\.\d+)?)/100%\)')

_Clients = list[frozenset[str]]


def offline(cluster: ceph.Cluster, record: records.Record, fencing: fence.Fence,
            ledger: ledgers.Ledger, announce: Callable[[], None], rate: int, stall_s: float,
            progress: trace.Progress | None = None,
            keys: Mapping[records.VolumeRef, str] | None = None) -> None:
    """Write the overlays of a record to their volumes. Nothing is left to do for a deleted volume.

    :param ledger: the ledger into which the clients of qemu-img are entered before they write
    :param announce: called after that, and before they write; raises an error if another merge of
        the same overlays has begun or ended, which otherwise cannot end after this
    :param rate: bytes per second at most, 0 for no limit
    :param stall_s: seconds without progress after which the merge fails
    :param progress: called with the bytes merged so far, and all bytes
    :param keys: passphrases of the encrypted volumes
    :raises OverlayBusy: a client that is not fenced has an overlay open
    :raises MergeFailed: qemu-img failed or stalled, or a passphrase is missing; nothing is lost,
        and the merge may be repeated
    """
    keys = keys or {}
    for volume in record.volumes:
        if volume.luks_bytes and volume.ref not in keys:
            raise errors.MergeFailed(
                f'{volume.overlay_ref} is encrypted, and its passphrase is unknown here: let '
                f'Cinder merge it, or start the server')
    dead = unused(cluster, record, fencing)
    # Each size takes a sweep of the overlay.
    sizes = ([] if progress is None else
             [overlay.used_bytes(cluster, volume) for volume in record.volumes])
    for index, volume in enumerate(record.volumes):
        def report(share: float, index: int = index) -> None:
            if progress is not None:
                progress(int(sum(sizes[:index]) + share * sizes[index]), sum(sizes))
        # QEMU opens images by name, and an image may have another one since ``super``.
        named = _existing(cluster, volume)
        if named is None:
            continue
        with trace.change('merge.commit', str(volume.ref)):
            _Commit(cluster, named, ledger, record.id, stall_s,
                    keys.get(volume.ref)).run(rate, announce, report)
    # A client that has opened an overlay by now may have written data that is not in the volume.
    _check(cluster, record, lambda clients: clients - dead)


def _existing(cluster: ceph.Cluster, volume: records.Volume) -> records.Volume | None:
    """Return a volume with the name that its image has; None if the image is deleted."""
    try:
        return volumes.current(cluster, volume)
    except errors.VolumeGone:
        LOG.warning('%s was deleted before %s was merged into it: the overlay is removed',
                    volume.ref, volume.overlay_ref)
        return None


def unused(cluster: ceph.Cluster, record: records.Record, fencing: fence.Fence
           ) -> frozenset[str]:
    """Make sure that only fenced clients have an overlay open.

    An OSD may list a dead client as a watcher for ever. Such a client is ignored once an operator
    has fenced it.

    :returns: the fenced clients that have an overlay open
    :raises OverlayBusy: another client has an overlay open
    """
    return _check(cluster, record, fencing.alive)


def check_space(cluster: ceph.Cluster, parents: Iterable[records.Volume]) -> None:
    """Make sure that the pools of volumes admit the writes of a merge.

    librbd holds all writes of QEMU back while a pool is full. QEMU cannot mark them as
    :mod:`writes` does, and they need space.

    :raises MergeFailed: a pool is full; the merge may be repeated
    """
    pools = cluster.pools()
    for volume in parents:
        if full := ceph.full(pools, (volume.pool_id, volume.data_pool_id)):
            raise errors.MergeFailed(
                f'merge of {volume.overlay_ref} into {volume.ref} waits for space: '
                f'{"; ".join(full)}. Then repeat it; the volume service does so by itself')


def _check(cluster: ceph.Cluster, record: records.Record,
           alive: Callable[[frozenset[str]], frozenset[str]]) -> frozenset[str]:
    """Return the clients that have an overlay open.

    :param alive: returns which of some clients may have written
    :raises OverlayBusy: one of them may have written
    """
    users: frozenset[str] = frozenset()
    for volume in record.volumes:
        clients = volumes.watchers(cluster, volume.overlay_ref)
        users |= clients
        if running := alive(clients):
            raise errors.OverlayBusy(
                f'overlay {volume.overlay_ref} is open', running,
                'merge it there (online), or stop the backup first')
    return users


class _Commit:
    """One run of qemu-img, which writes only after its clients are in the volume's ledger.

    When qemu-img has its images open, and before it writes, it prints that 0 % are done. Its
    output is a full pipe, so qemu-img waits there until the pipe is read.
    """

    def __init__(self, cluster: ceph.Cluster, volume: records.Volume, ledger: ledgers.Ledger,
                 superposition: str, stall_s: float, passphrase: str | None) -> None:
        self._cluster = cluster
        self._volume = volume
        self._ledger = ledger
        self._entry = ledgers.Entry(ledgers.MERGER, superposition)
        self._stall_s = stall_s
        self._passphrase = passphrase

    def run(self, rate: int, announce: Callable[[], None],
            report: Callable[[float], None]) -> None:
        """Write the overlay to the volume.

        :raises MergeFailed: qemu-img failed or stalled
        """
        volume = self._volume
        # -d leaves the overlay unchanged, since it is removed anyway. qemu-img dies with its
        # controller: another controller would find the overlay busy otherwise.
        command = ['setpriv', '--pdeathsig', 'KILL', 'qemu-img', 'commit', '-p', '-d']
        if rate:
            command += ['-r', str(rate)]
        before = self._clients()
        with _full_pipe() as (out, into), _secret(self._passphrase) as (options, files):
            command += [*options,
                        'json:' + json.dumps(nodes.offline_chain(self._cluster, volume))]
            try:
                process = subprocess.Popen(command, stdout=into, stderr=subprocess.PIPE,
                                           pass_fds=files)
            except FileNotFoundError:
                raise errors.MergeFailed('setpriv is missing: install util-linux') from None
            finally:
                into.close()
            with process:
                try:
                    mine = self._enter(process, before)
                    announce()
                    assert process.stderr is not None
                    stderr = _follow(out, process.stderr, self._stall_s, report)
                except TimeoutError:
                    process.kill()
                    check_space(self._cluster, (volume,))
                    raise errors.MergeFailed(
                        f'merge of {volume.overlay_ref} into {volume.ref} made no progress for '
                        f'{self._stall_s:g} s: is Ceph healthy? Repeat it when it is') from None
                except BaseException:
                    process.kill()
                    raise
        if process.returncode:
            raise errors.MergeFailed(
                f'merge of {volume.overlay_ref} into {volume.ref} failed: '
                f'{stderr.decode(errors="replace").strip()}')
        # qemu-img has closed its images. A client that has an image open is not of qemu-img.
        self._ledger.leave(volume, mine - self._all(self._clients()))
        LOG.info('merged %s into %s', volume.overlay_ref, volume.ref)

    def _enter(self, process: 'subprocess.Popen[bytes]', before: _Clients) -> frozenset[str]:
        """Wait until qemu-img has both images open, and enter its clients.

        :returns: the clients of qemu-img; none if it has ended
        :raises MergeFailed: qemu-img may have opened another image, which has the name now
        :raises TimeoutError: qemu-img has not opened its images in time
        """
        began = time.monotonic()
        while process.poll() is None:
            opened = [now - then for now, then in zip(self._clients(), before, strict=True)]
            if volumes.current(self._cluster, self._volume) != self._volume:
                raise errors.MergeFailed(
                    f'{self._volume.ref} was renamed before {self._volume.overlay_ref} was merged '
                    f'into it: repeat the merge')
            if all(opened):
                self._ledger.enter(self._volume, self._all(opened), self._entry)
                return self._all(opened)
            if time.monotonic() - began > self._stall_s:
                raise TimeoutError
            time.sleep(_POLL_S)
        return frozenset()

    def _clients(self) -> _Clients:
        """Return the clients of the overlay, and of the volume's own image."""
        return [volumes.watchers(self._cluster, self._volume.overlay_ref),
                volumes.watchers(self._cluster, self._volume.ref, self._volume.image_id)]

    @staticmethod
    def _all(clients: _Clients) -> frozenset[str]:
        return frozenset().union(*clients)


@contextlib.contextmanager
def _secret(passphrase: str | None) -> Iterator[tuple[list[str], list[int]]]:
    """Yield qemu-img's options for a passphrase, and the files to pass on, in memory only."""
    if passphrase is None:
        yield [], []
        return
    with open(os.memfd_create('specreds'), 'wb', buffering=0) as file:
        file.write(passphrase.encode())
        yield (['--object', f'secret,id={nodes.SECRET},file=/proc/self/fd/{file.fileno()}'],
               [file.fileno()])


@contextlib.contextmanager
def _full_pipe() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open a full pipe: a writer waits until the pipe is read."""
    ends = os.pipe()
    with open(ends[0], 'rb', buffering=0) as out, open(ends[1], 'wb', buffering=0) as into:
        fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, mmap.PAGESIZE)
        os.set_blocking(into.fileno(), False)
        # A write that finds no room at all returns None.
        while into.write(b'\n' * mmap.PAGESIZE):
            pass
        os.set_blocking(into.fileno(), True)
        yield out, into


def _follow(out: IO[bytes], err: IO[bytes], stall_s: float,
            report: Callable[[float], None]) -> bytes:
    """Read the output of a process to its end, and return its standard error.

    :raises TimeoutError: the process made no progress for too long
    """
    stderr, seen, moved = b'', -1.0, time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(out, selectors.EVENT_READ)
        selector.register(err, selectors.EVENT_READ)
        while selector.get_map():
            for key, _mask in selector.select(1):
                # Not through the file object, which cannot read a part with green threads.
                chunk = os.read(key.fd, 4096)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.fileobj is err:
                    stderr += chunk
                elif percent := _PERCENT.findall(chunk):
                    share = float(percent[-1]) / 100
                    report(share)
                    if share > seen:
                        seen, moved = share, time.monotonic()
            if time.monotonic() - moved > stall_s:
                raise TimeoutError
    return stderr
