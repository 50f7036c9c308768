# SPDX-License-Identifier: Apache-2.0
"""The offline merge: an overlay that nobody has open is written down by ``qemu-img commit``.

The overlay stays as it is until the record says merged, so a merge that was cut off is repeated.
"""

from collections.abc import Callable, Iterator
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

from specreds_cinder.superposition import backup as backups
from specreds_cinder.superposition import cluster as ceph
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import ledger as ledgers
from specreds_cinder.superposition import nodes
from specreds_cinder.superposition import overlay
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import trace
from specreds_cinder.superposition import volume as volumes

LOG = logging.getLogger(__name__)

_POLL_S = 0.05
_PERCENT = re.compile(rb'\((\d+(?:\.\d+)?)/100%\)')

_Clients = list[frozenset[str]]


def offline(cluster: ceph.Cluster, record: records.Record, ledger: ledgers.Ledger, rate: int,
            stall_s: float, progress: backups.Progress | None = None) -> None:
    """Write the overlays of a record down into their volumes.

    :param ledger: where the clients of qemu-img are entered before they write
    :param rate: bytes per second at most, 0 for no limit
    :param stall_s: seconds without progress after which to give up
    :param progress: called with the bytes written down so far and those there are
    :raises OverlayBusy: the backup still has an overlay open
    :raises MergeFailed: qemu-img failed or stalled; nothing is lost, repeat it
    """
    unused(cluster, record)
    sizes = [overlay.used_bytes(cluster, volume) for volume in record.volumes]
    for index, volume in enumerate(record.volumes):
        def tell(share: float, index: int = index) -> None:
            if progress is not None:
                progress(int(sum(sizes[:index]) + share * sizes[index]), sum(sizes))
        with trace.change('merge.commit', str(volume.ref)):
            _Commit(cluster, volume, ledger, record.id, stall_s).run(rate, tell)
    # What somebody who has opened an overlay meanwhile wrote to it is not in the volume.
    unused(cluster, record)


def unused(cluster: ceph.Cluster, record: records.Record) -> None:
    """:raises OverlayBusy: somebody has an overlay open"""
    for volume in record.volumes:
        users = volumes.clients(cluster, volume.overlay_ref)
        if users:
            raise errors.OverlayBusy(
                f'overlay {volume.overlay_ref} is open at {", ".join(sorted(users))}: merge it '
                f'there (online), or stop the backup first')


class _Commit:
    """One run of qemu-img, which writes only after its clients are in the volume's ledger.

    Once it has its images open, and before it writes to any, it says that 0 % are done. That goes
    into a pipe that is full, so it waits there until the pipe is read.
    """

    def __init__(self, cluster: ceph.Cluster, volume: records.Volume, ledger: ledgers.Ledger,
                 superposition: str, stall_s: float) -> None:
        self._cluster = cluster
        self._volume = volume
        self._ledger = ledger
        self._entry = ledgers.Entry(ledgers.MERGER, superposition)
        self._stall_s = stall_s

    def run(self, rate: int, tell: Callable[[float], None]) -> None:
        """Write the overlay down into the volume.

        :raises MergeFailed: qemu-img failed or stalled
        """
        volume = self._volume
        # -d leaves the overlay as it is; emptying it would be work for nothing before its removal.
        # It must not go on when its controller is killed: another one would find the overlay busy.
        command = ['setpriv', '--pdeathsig', 'KILL', 'qemu-img', 'commit', '-p', '-d']
        if rate:
            command += ['-r', str(rate)]
        command.append('json:' + json.dumps(nodes.offline_chain(self._cluster, volume)))
        before = self._clients()
        with _full_pipe() as (out, into):
            try:
                process = subprocess.Popen(command, stdout=into, stderr=subprocess.PIPE)
            except FileNotFoundError:
                raise errors.MergeFailed('setpriv is missing: install util-linux') from None
            finally:
                into.close()
            with process:
                try:
                    mine = self._enter(process, before)
                    assert process.stderr is not None
                    said = _follow(out, process.stderr, self._stall_s, tell)
                except TimeoutError:
                    process.kill()
                    raise errors.MergeFailed(
                        f'merge of {volume.overlay_ref} into {volume.ref} made no progress for '
                        f'{self._stall_s:g} s: is Ceph healthy? Repeat it when it is') from None
                except BaseException:
                    process.kill()
                    raise
        if process.returncode:
            raise errors.MergeFailed(
                f'merge of {volume.overlay_ref} into {volume.ref} failed: '
                f'{said.decode(errors="replace").strip()}')
        # It has ended in good order. Whoever still has an image open was not part of it.
        self._ledger.leave(volume, mine - self._all(self._clients()))
        LOG.info('merged %s into %s', volume.overlay_ref, volume.ref)

    def _enter(self, process: 'subprocess.Popen[bytes]', before: _Clients) -> frozenset[str]:
        """Wait until qemu-img has both images open, and enter its clients.

        :returns: its clients; none if it has ended instead
        :raises TimeoutError: it does not get that far
        """
        began = time.monotonic()
        while process.poll() is None:
            found = [now - then for now, then in zip(self._clients(), before, strict=True)]
            if all(found):
                self._ledger.enter(self._volume, self._all(found), self._entry)
                return self._all(found)
            if time.monotonic() - began > self._stall_s:
                raise TimeoutError
            time.sleep(_POLL_S)
        return frozenset()

    def _clients(self) -> _Clients:
        """Return the clients of the overlay, and of the volume's own image."""
        return [volumes.clients(self._cluster, ref)
                for ref in (self._volume.overlay_ref, self._volume.ref)]

    @staticmethod
    def _all(clients: _Clients) -> frozenset[str]:
        return frozenset().union(*clients)


@contextlib.contextmanager
def _full_pipe() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Make a pipe that whoever writes to it has to wait for, until it is read."""
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
            tell: Callable[[float], None]) -> bytes:
    """Read a process's output to the end; give what it said on stderr."""
    said, seen, moved = b'', -1.0, time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(out, selectors.EVENT_READ)
        selector.register(err, selectors.EVENT_READ)
        while selector.get_map():
            for key, _mask in selector.select(1):
                # Not by the file: where threads are green it is one that cannot read a part.
                chunk = os.read(key.fd, 4096)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.fileobj is err:
                    said += chunk
                elif percent := _PERCENT.findall(chunk):
                    share = float(percent[-1]) / 100
                    tell(share)
                    if share > seen:
                        seen, moved = share, time.monotonic()
            if time.monotonic() - moved > stall_s:
                raise TimeoutError
    return said
