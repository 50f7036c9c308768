# SPDX-License-Identifier: Apache-2.0
"""The rate of a live merge: raised until the copy is faster than its guest writes."""

from collections.abc import Callable
import logging
import sys
import time

LOG = logging.getLogger(__name__)

# How long a merge may get no nearer to its end before its limit is raised, by how much, and up to
# where. A guest's kernel writes back what is old every 5 s: only what lasts longer is no burst.
# And as little more as it takes, for what the merge takes, the guest does not get.
_PATIENCE = 10.0
_MORE = 1.5
_FAST = 1 << 30
# So much is left as long as nobody has counted it.
UNKNOWN = sys.maxsize


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
