# SPDX-License-Identifier: Apache-2.0
"""How fast a copy beside a guest may be, and what ends it although the guest keeps writing.

Little is copied without a limit: that takes a few seconds, and the guest is slow for as long as it
has an overlay. A limit of more follows the latency of the guest's requests. A copy that makes no
progress loses its limit; if it makes none without a limit either, the guest is slowed down for the
last moment.
"""

from collections.abc import Callable
import dataclasses
import logging
import math
import sys
import time

LOG = logging.getLogger(__name__)

# Bytes that are copied without a limit.
LITTLE = 256 << 20
# Limits of more, in bytes per second: the first one, the lowest one, and the highest one.
_FIRST, _LEAST, _MOST = 64 << 20, 8 << 20, 1 << 30
# The limit is raised by this factor, and halved if the guest's requests take so many times as long
# as at best, and longer than nobody notices.
_FACTOR = 1.25
_SLOWER, _UNNOTICED_S = 2.0, 0.002
# Seconds between two changes of a limit, and for which a copy is looked at for progress: the rest
# has to shrink by a tenth of what is copied.
_SETTLE_S, _PATIENCE_S, _PROGRESS = 1.0, 2.0, 0.1
# Bytes that are left before QEMU has counted them.
UNKNOWN = sys.maxsize


@dataclasses.dataclass(frozen=True)
class Look:
    """A look at a copy.

    :ivar left: bytes still to be copied, :data:`UNKNOWN` at first
    :ivar done: bytes copied so far
    :ivar waited: seconds that all requests of the guest have taken so far
    :ivar requests: the number of these requests
    """

    left: int
    done: int = 0
    waited: float = 0.0
    requests: int = 0


class Pace:
    """Finds the rate at which a copy may run.

    :param most: bytes per second at most, 0 for no limit
    :ivar rate: limit in bytes per second, 0 for none
    :ivar brake: bytes per second that the guest may write, 0 for no limit
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.rate = most
        self.brake = 0
        self._limit = float(_FIRST)
        self._free = False
        self._settled: tuple[float, Look] | None = None
        self._since: tuple[float, Look] | None = None

    def follow(self, look: Look, now: float) -> bool:
        """Follow a look; return whether rate or brake have changed."""
        if look.left == UNKNOWN:
            return False
        before = self.rate, self.brake
        self._progress(look, now)
        self._settle(look, now)
        limit = 0 if self._free or look.left <= LITTLE else int(self._limit)
        self.rate = min((rate for rate in (limit, self._most) if rate), default=0)
        return (self.rate, self.brake) != before

    def _progress(self, look: Look, now: float) -> None:
        if self._since is None:
            self._since = now, look
        began, then = self._since
        if now - began < _PATIENCE_S:
            return
        self._since = now, look
        copied = look.done - then.done
        # Without any copy, the storage is stuck, and not the guest too fast.
        if not copied or then.left - look.left >= copied * _PROGRESS:
            return
        if self.rate:
            self._free, self._most = True, 0
        else:
            self.brake = max(1, (self.brake or int(copied / (now - began))) // 2)

    def _settle(self, look: Look, now: float) -> None:
        if self._settled is None:
            self._settled = now, look
            # Before the copy.
            self._best = look.waited / look.requests if look.requests else math.inf
        began, then = self._settled
        if now - began < _SETTLE_S:
            return
        self._settled = now, look
        slow = False
        if requests := look.requests - then.requests:
            latency = (look.waited - then.waited) / requests
            self._best = min(self._best, latency)
            slow = latency > max(_SLOWER * self._best, _UNNOTICED_S)
        self._limit = max(_LEAST, self._limit / 2) if slow else min(_MOST, self._limit * _FACTOR)


def approach(name: str, most: int, enough: int, look: Callable[[], Look],
             limit: Callable[[int], None], wait: Callable[[], None],
             brake: Callable[[int], None] | None = None) -> None:
    """Wait until so little is left to copy that the guest can be stopped for the rest.

    :param name: name of the merge, for the log
    :param most: bytes per second at most while that suffices, 0 for no limit
    :param enough: bytes that may be left
    :param look: returns how far the copy is
    :param limit: sets the limit of the copy, 0 for none
    :param wait: called between two looks
    :param brake: limits what the guest writes, in bytes per second; None if that is not possible:
        this returns then with more left than ``enough`` if the guest writes too fast
    """
    pace = Pace(most)
    while (seen := look()).left > enough:
        rate, braked = pace.rate, pace.brake
        if pace.follow(seen, time.monotonic()):
            if pace.rate != rate:
                limit(pace.rate)
            if pace.brake != braked:
                LOG.info('merge of %s: the guest writes as fast as its overlays can be merged, '
                         'and %d MiB are left', name, seen.left >> 20)
                if brake is None:
                    return
                LOG.info('merge of %s: the guest may write %d KiB per second until the merge has '
                         'ended', name, pace.brake >> 10)
                brake(pace.brake)
        wait()
