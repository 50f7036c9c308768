# SPDX-License-Identifier: Apache-2.0
"""States of a primary, and events that disturb it during a collapse."""

from collections.abc import Iterator
import contextlib
import enum
import threading

from testing.race import control
from testing.race import processes


class Disturbance(enum.Enum):
    """Events of the primary during the collapse."""

    NONE = 'none'
    WAKE = 'wakes up'
    HANG = 'hangs'
    CUT = 'is cut off'
    DIE = 'dies'
    BURST = 'bursts into writing'


def kind(primary: processes.WriterProcess) -> str:
    """Return the present kind of a primary."""
    if primary.gone:
        return 'dead'
    if primary.stopped:
        return 'hung'
    return {control.Mode.PAUSED: 'idle', control.Mode.BURSTY: 'live-bursty'}.get(
        primary.control.mode, 'live-steady')


@contextlib.contextmanager
def disturbed(primary: processes.WriterProcess, disturbance: Disturbance, delay: float,
              ) -> Iterator[None]:
    """Let an event happen to a primary.

    :param delay: seconds from the context's begin to the event, for which its end waits
    """
    timer = threading.Timer(delay, {
        Disturbance.NONE: lambda: None, Disturbance.WAKE: primary.wake,
        Disturbance.HANG: primary.stop,
        Disturbance.CUT: primary.cut, Disturbance.DIE: primary.kill,
        Disturbance.BURST: lambda: primary.mode(control.Mode.TORRENT),
    }[disturbance])
    timer.start()
    try:
        yield
    finally:
        timer.join()
        if disturbance is Disturbance.BURST:
            primary.mode(control.Mode.BURSTY)
