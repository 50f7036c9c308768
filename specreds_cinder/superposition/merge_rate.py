# SPDX-License-Identifier: Apache-2.0
"""The rates of merges: shares of a limit, and limits raised until a copy outruns its guest."""

from collections.abc import Callable
import logging
import sys
import time

LOG = logging.getLogger(__name__)

# Seconds without progress after which the limit is raised, the factor, and the highest limit in
# bytes per second. A guest's kernel writes old pages back every 5 s, so only what lasts longer is
# no burst. The factor is small, since the merge takes its throughput from the guest.
_PATIENCE = 10.0
_FACTOR = 1.5
_HIGHEST = 1 << 30
# Bytes that are left before QEMU has counted them.
UNKNOWN = sys.maxsize
# Bytes per second that a disk always has, since the system of a guest always writes a little.
_LEAST = 256 << 10


def equal_share(limit: int, disks: int) -> int:
    """Return the rate of each of some disks in bytes per second that share a limit.

    :param limit: bytes per second for all of them, 0 for any rate
    :returns: 0 for any rate
    """
    return max(_LEAST, limit // max(1, disks)) if limit else 0


def lowest(*limits: int) -> int:
    """Return the lowest of some limits of a rate; 0 stands for any rate."""
    return min((limit for limit in limits if limit), default=0)


class Approach:
    """Finds the rate at which a copy ends although its guest keeps writing.

    :ivar rate: limit in bytes per second, 0 for none
    """

    def __init__(self, rate: int) -> None:
        self.rate = rate
        # Whether the limit was raised because the guest keeps up with it.
        self._raised = False
        self._least = UNKNOWN
        self._since: float | None = None

    def __str__(self) -> str:
        return f'{self.rate / (1 << 20):.1f} MiB/s' if self.rate else 'none'

    def stuck(self, left: int, now: float) -> bool:
        """Report whether the copy has made no progress for too long.

        Progress is a tenth of what the limit allows in that time, or without a limit, a tenth of
        the bytes that are left: under a limit, a tenth of a large rest may take hours.

        :param left: bytes still to be copied
        :param now: seconds on the monotonic clock
        """
        step = self.rate * _PATIENCE / 10 if self.rate else self._least / 10
        if self._since is None or left <= self._least - step:
            self._least, self._since = left, now
        return now - self._since > _PATIENCE

    def follow(self, share: int) -> bool:
        """Take another limit, and return whether that changed the limit.

        A limit that was raised is never lowered: the copy would not end.

        :param share: in bytes per second, 0 for none
        """
        higher = bool(self.rate) and (not share or share > self.rate)
        if share == self.rate or (self._raised and not higher):
            return False
        self.rate = share
        if higher:
            # Whatever is lowered again and again must not hide that the copy is stuck.
            self._since = None
        return True

    def hurry(self, left: int, now: float) -> None:
        """Raise the limit of a copy that is stuck.

        The new limit is at least the rate at which the guest adds to the rest, since less cannot
        be enough. The parameters are those of :meth:`stuck`.
        """
        assert self._since is not None
        growth = (left - self._least) / (now - self._since)
        raised = int(max(_FACTOR * self.rate, self.rate + growth))
        self.rate = raised if self.rate < _HIGHEST else 0
        self._raised = True
        self._since = None


def approach(name: str, rate: int, enough: int, left: Callable[[], int],
             limit: Callable[[int], None], wait: Callable[[int, int], None],
             share: Callable[[], int] | None = None) -> None:
    """Wait until so little is left to copy that the guest can be stopped for the rest.

    While the guest writes as fast as the copy runs, the limit is raised. If no limit helps, this
    returns with more left than ``enough``.

    :param name: name of the merge, for the log
    :param rate: the first limit in bytes per second, 0 for none
    :param enough: bytes that may be left
    :param left: returns the bytes that are left, :data:`UNKNOWN` at first
    :param limit: sets another limit
    :param wait: called between two looks, with the bytes that are left and the limit
    :param share: returns the limit that other merges leave to this one; None if it does not change
    """
    convergence = Approach(rate)
    while (rest := left()) > enough:
        now = time.monotonic()
        if convergence.stuck(rest, now):
            if not convergence.rate:
                LOG.warning('merge of %s: the guest writes as fast as its overlays can be merged, '
                            'and will be stopped while %d MiB are copied', name, rest >> 20)
                return
            convergence.hurry(rest, now)
            LOG.info('merge of %s: the guest writes faster than the merge, raising the limit '
                     'to %s', name, convergence)
            limit(convergence.rate)
        elif share is not None and convergence.follow(share()):
            limit(convergence.rate)
        wait(rest, convergence.rate)
