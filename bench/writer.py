# SPDX-License-Identifier: Apache-2.0
"""A writer that runs until it is ended, and logs its rate."""

from collections.abc import Sequence
import pathlib
import signal
import subprocess
import time

_LIMIT = 600
_INTERVAL_MS = 250
_STOP_TIMEOUT = 30.0

Point = tuple[float, float]


# fio's options of a database's log.
_FSYNC = ('--bs=8k', '--fsync=1')


class Writer:
    """Writes to random places, by default of 8 KiB, each followed by fsync, one at a time.

    :param uri: of the export
    :param offset: start of its part of the disk, in bytes
    :param size: of that part, in bytes
    :param scratch: directory for its log
    :param options: fio's options of the writes
    :ivar suspended_s: the longest time for which it was stopped
    """

    def __init__(self, uri: str, offset: int, size: int, scratch: pathlib.Path,
                 options: Sequence[str] = _FSYNC) -> None:
        self.suspended_s = 0.0
        self._stopped: float | None = None
        self._log = scratch / 'writer'
        for old in self._files():
            old.unlink()
        self._process = subprocess.Popen(
            ['fio', '--name=writer', '--ioengine=nbd', f'--uri={uri}', '--thread',
             '--rw=randwrite', *options, f'--offset={offset}', f'--size={size}',
             '--time_based', f'--runtime={_LIMIT}', f'--write_iops_log={self._log}',
             f'--log_avg_msec={_INTERVAL_MS}', '--log_unix_epoch=1'],
            cwd=scratch, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)

    def quiesce(self, quiet: bool) -> None:
        """Stop or resume the writer, as a hypervisor stops and resumes a guest."""
        self._process.send_signal(signal.SIGSTOP if quiet else signal.SIGCONT)
        if quiet:
            self._stopped = time.monotonic()
        elif self._stopped is not None:
            self.suspended_s = max(self.suspended_s, time.monotonic() - self._stopped)
            self._stopped = None

    def end(self) -> list[Point]:
        """End the writer, and return its writes per second over time (seconds since the epoch).

        :raises RuntimeError: it had ended before
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
    """Parse fio's log of writes per second (time in ms, value, direction (1: write), …)."""
    rows = (line.split(',') for line in log.splitlines() if line.strip())
    return [(int(row[0]) / 1e3, float(row[1])) for row in rows if int(row[2]) == 1]


def rate(points: Sequence[Point], begin: float, end: float) -> float:
    """Return the mean rate between two times.

    An entry of the log covers the interval before it. Without an entry, the writer stood still
    and the rate is 0.
    """
    interval = _INTERVAL_MS / 1e3
    inside = [value for at, value in points if begin + interval <= at <= end]
    slots = max((end - begin) / interval - 1, len(inside), 1)
    return sum(inside) / slots


def pause(seconds: float) -> float:
    """Wait, and return the time afterwards (seconds since the epoch)."""
    time.sleep(seconds)
    return time.time()
