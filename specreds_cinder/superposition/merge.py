# SPDX-License-Identifier: Apache-2.0
"""The offline merge: an overlay that nobody has open is written down by ``qemu-img commit``.

The overlay stays as it is until the record says merged, so a merge that was cut off is repeated.
"""

from collections.abc import Callable
import json
import logging
import os
import re
import selectors
import subprocess
import time
from typing import IO

from specreds_cinder.superposition import backup as backups
from specreds_cinder.superposition import cluster as ceph
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import overlay
from specreds_cinder.superposition import qemu
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import trace
from specreds_cinder.superposition import volume as volumes

LOG = logging.getLogger(__name__)

_PERCENT = re.compile(rb'\((\d+(?:\.\d+)?)/100%\)')


def offline(cluster: ceph.Cluster, record: records.Record, rate: int, stall_s: float,
            progress: backups.Progress | None = None) -> None:
    """Write the overlays of a record down into their volumes.

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
            _commit(cluster, volume, rate, stall_s, tell)
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


def _commit(cluster: ceph.Cluster, volume: records.Volume, rate: int, stall_s: float,
            tell: Callable[[float], None]) -> None:
    # -d leaves the overlay as it is; emptying it would be work for nothing before its removal.
    # It must not go on when its controller is killed: another one would find the overlay busy.
    command = ['setpriv', '--pdeathsig', 'KILL', 'qemu-img', 'commit', '-p', '-d']
    if rate:
        command += ['-r', str(rate)]
    command.append('json:' + json.dumps(qemu.offline_chain(cluster, volume)))
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError:
        raise errors.MergeFailed('setpriv is missing: install util-linux') from None
    with process:
        assert process.stdout is not None and process.stderr is not None
        try:
            said = _follow(process.stdout, process.stderr, stall_s, tell)
        except TimeoutError:
            process.kill()
            raise errors.MergeFailed(
                f'merge of {volume.overlay_ref} into {volume.ref} made no progress for '
                f'{stall_s:g} s: is Ceph healthy? Repeat it when it is') from None
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise errors.MergeFailed(
            f'merge of {volume.overlay_ref} into {volume.ref} failed: '
            f'{said.decode(errors="replace").strip()}')
    LOG.info('merged %s into %s', volume.overlay_ref, volume.ref)


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
