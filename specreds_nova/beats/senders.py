# SPDX-License-Identifier: Apache-2.0
"""Which of the beats that have a host's name come from the host.

The broker checks no sender, so a beat may be forged, or come from a second host of the same name.
The beats of one nova-compute have one boot and ascending numbers. As long as they come, no other
beat counts. Once they are late, a new boot counts at once: a nova-compute that starts again is
silent for longer than that, or has said goodbye. Beats of an earlier boot, with lower numbers, or
with numbers that are far ahead count then only if they go on: a single one is old or forged.
"""

from specreds_nova.beats import message
from specreds_nova.beats import rejections

# Intervals, and seconds at most, within which the latest beat of a sender holds off other senders.
# No host is suspected, and no nova-compute starts, within that time.
_FRESH, _FRESH_SECONDS = 2.2, 2.0
# Seconds of beats that may be missing between two beats: lost by an outage, or dropped.
_MISSING = 60.0
# Beats closer together than this share of the interval have waited somewhere, and may be old.
_HELD_UP = 0.25
# Beats that an odd one has to follow to count.
_STEADY = 2
# Earlier boots of a host that are remembered.
_FORMER = 4


class Senders:
    """The senders of beats with the name of one host. Not thread-safe.

    :ivar former: boots whose beats counted before the beats of the current one
    """

    __slots__ = ('_count', '_other', '_other_at', 'former')

    def __init__(self) -> None:
        self.former: tuple[str, ...] = ()
        # The latest beat that did not count, when it was heard, and how many it has followed.
        self._other: message.Beat | None = None
        self._other_at = 0.0
        self._count = 0

    def refusal(self, beat: message.Beat, latest: message.Beat, silence: float, now: float
                ) -> str | None:
        """Return why a beat does not count that does not follow the latest one; None if it does.

        :param latest: the latest beat that counts
        :param silence: seconds since then
        :returns: a reason of :mod:`.rejections`; empty for a beat that is only old
        """
        if _follows(beat, latest, silence):
            return None
        late = silence > min(_FRESH * latest.interval, _FRESH_SECONDS)
        anew = beat.boot != latest.boot
        if anew and beat.boot not in self.former and (late or latest.leaving):
            return None
        if self._goes_on(beat, now) and late:
            return None
        if anew or beat.interval != latest.interval:
            return rejections.SENDER
        return rejections.JUMP if beat.number > latest.number else ''

    def replace(self, boot: str, by: str) -> bool:
        """Take another boot for the boot of the host; return whether it was so before."""
        before = by in self.former
        self.former = (*(former for former in self.former if former != by), boot)[-_FORMER:]
        return before

    def _goes_on(self, beat: message.Beat, now: float) -> bool:
        """Note a beat that does not count, and return whether it goes on to earlier ones."""
        gap = now - self._other_at
        if self._other is not None and _follows(beat, self._other, gap):
            if gap < _HELD_UP * beat.interval:
                return False
            self._count += 1
        else:
            self._count = 0
        self._other, self._other_at = beat, now
        return self._count >= _STEADY


def _follows(beat: message.Beat, latest: message.Beat, silence: float) -> bool:
    """Return whether a beat is by the sender of an earlier one, and later than that."""
    return (beat.boot == latest.boot and beat.interval == latest.interval
            and 0 < (beat.number - latest.number) * latest.interval <= _MISSING + 2.0 * silence)
