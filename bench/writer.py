# SPDX-License-Identifier: Apache-2.0
"""A writer that works as long as it is let, and keeps a log of how fast it was."""

from collections.abc import Sequence
import pathlib
import signal
import subprocess
import time

_LIMIT = 600
_INTERVAL_MS = 250
_STOP_TIMEOUT = 30.0

Point = tuple[float, float]


class Writer:
    """8 KiB writes to random places, each followed by fsync, one at a time.

    :param uri: of the export
    :param offset: where its part of the disk begins, in bytes
    :param size: of that part, in bytes
    :param scratch: directory for its log
    """

    def __init__(self, uri: str, offset: int, size: int, scratch: pathlib.Path) -> None:
        self._log = scratch / 'writer'
        for old in self._files():
            old.unlink()
        self._process = subprocess.Popen(
            ['fio', '--name=writer', '--ioengine=nbd', f'--uri={uri}', '--thread',
             '--rw=randwrite', '--bs=8k', '--fsync=1', f'--offset={offset}', f'--size={size}',
             '--time_based', f'--runtime={_LIMIT}', f'--write_iops_log={self._log}',
             f'--log_avg_msec={_INTERVAL_MS}', '--log_unix_epoch=1'],
            cwd=scratch, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)

    def quiesce(self, quiet: bool) -> None:
        """Stop it for a moment, as a hypervisor would stop a guest, or let it go on."""
        self._process.send_signal(signal.SIGSTOP if quiet else signal.SIGCONT)

    def end(self) -> list[Point]:
        """End it, and give its writes per second over time (seconds since the epoch).

        :raises RuntimeError: it had ended by itself
        """
        if self._process.poll() is not None:
            raise RuntimeError(f'the writer ended too early ({self._process.returncode})')
        self.quiesce(False)
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        return parse('\n'.join(path.read_text() for path in self._files()))

    def _files(self) -> Sequence[pathlib.Path]:
        return list(self._log.parent.glob(f'{self._log.name}_iops*.log'))


def parse(log: str) -> list[Point]:
    """Read fio's log of writes per second: time in ms, value, direction (1: write), …"""
    rows = (line.split(',') for line in log.splitlines() if line.strip())
    return [(int(row[0]) / 1e3, float(row[1])) for row in rows if int(row[2]) == 1]


def rate(points: Sequence[Point], begin: float, end: float) -> float:
    """Give the mean rate between two times.

    An entry of the log covers the interval before it. Where there is none at all, the writer
    stood still: the rate is 0 then.
    """
    interval = _INTERVAL_MS / 1e3
    inside = [value for at, value in points if begin + interval <= at <= end]
    slots = max((end - begin) / interval - 1, len(inside), 1)
    return sum(inside) / slots


def pause(seconds: float) -> float:
    """Wait, and give the time (seconds since the epoch) after that."""
    time.sleep(seconds)
    return time.time()
