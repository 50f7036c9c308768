# SPDX-License-Identifier: Apache-2.0
"""The usual beat, read without JSON: an engine of 1,000 hosts gets 5,000 of them per second.

What differs between one beat and the next are eight values; JSON within JSON takes more than twice
as long to find them as one pattern does. Whatever is not as usual does not match, and is for JSON.
"""

from collections.abc import Sequence
import re

from specreds_nova.beats import message

_WORD = rb'([ !#-\[\]-~]{1,255})'
# Databases take a name with a space at its end for the one without.
_HOST = rb'(?! )([ !#-\[\]-~]{1,%d})(?<! )' % message.NAME
_COUNT = rb'(0|[1-9]\d{0,17})'
_SECONDS = rb'((?:0|[1-9]\d{0,8})\.\d{1,9})'


def _pattern() -> re.Pattern[bytes]:
    """Make it of a beat as it is sent, so that there is one place that says how that is."""
    beat = message.Beat('HOST', 'BOOT', 1111, 22.25, 33.25, 44.25, kernel='KERNEL',
                        running='DIGEST')
    text = re.escape(message.wrap('beat', {'beat': message.encode(beat)}))
    for value, pattern in ((b'HOST', _HOST), (b'BOOT', _WORD), (b'1111', _COUNT),
                           (b'22.25', _SECONDS), (b'33.25', _SECONDS), (b'44.25', _SECONDS),
                           (b'KERNEL', _WORD), (b'DIGEST', _WORD)):
        text = text.replace(re.escape(value), pattern)
    return re.compile(text)


_match = _pattern().fullmatch
# How a beat begins, up to the name of its host, and what is before its number and its interval.
_BEGIN, _, _rest = message.wrap('beat', {'beat': message.encode(
    message.Beat('HOST', 'BOOT', 1111, 22.25))}).partition(b'HOST')
_NUMBER = _rest.partition(b'BOOT')[2].partition(b'1111')[0]
_INTERVAL = _rest.partition(b'1111')[2].partition(b'22.25')[0]
# What beats contain of which each one matters: lists, goodbyes, and what is sent now and then.
_MATTERS = (b'[', b'leaving', b'uptime')
_DIGITS = 18
_new = object.__new__


def read(body: bytes) -> message.Beat | None:
    """Return the beat in a message, None if it is not a usual one."""
    match = _match(body)
    if match is None:
        return None
    host, boot, number, interval, libvirt_age, storage_age, kernel, running = match.groups()
    seconds = float(interval)
    if not message.SHORTEST <= seconds < message.LONGEST:
        return None
    beat = _new(message.Beat)
    # The constructor of a frozen class takes half of the time of a message. What is not sent is
    # found in the class, which has the defaults.
    fields = vars(beat)
    fields['host'], fields['boot'], fields['number'] = host.decode(), boot.decode(), int(number)
    fields['interval'] = seconds
    fields['libvirt_age'], fields['storage_age'] = float(libvirt_age), float(storage_age)
    fields['kernel'], fields['running'] = kernel.decode(), running.decode()
    return beat


def newest(bodies: Sequence[bytes]) -> list[bytes]:
    """Return messages without the beats that the next one of their sender has made obsolete.

    The others keep their order. It is not known yet whether they are beats at all, nor whether
    they count: one of another sender, an old one or one that is far ahead replaces none.
    """
    # By host and boot, interval, and number.
    latest: dict[tuple[bytes, bytes, int], int] = {}
    obsolete: set[int] = set()
    lists, leaving, uptime = _MATTERS
    for at, body in enumerate(bodies):
        if not body.startswith(_BEGIN) or lists in body or leaving in body or uptime in body:
            continue
        sender, _, rest = body.partition(_NUMBER)
        digits, _, rest = rest.partition(_INTERVAL)
        if not digits.isdigit() or len(digits) > _DIGITS:
            continue
        interval, number = rest.partition(b',')[0], int(digits)
        before = latest.pop((sender, interval, number - 1), None)
        if before is not None:
            obsolete.add(before)
        latest[sender, interval, number] = at
    return [body for at, body in enumerate(bodies) if at not in obsolete]
