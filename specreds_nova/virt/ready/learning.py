# SPDX-License-Identifier: Apache-2.0
"""The marker that a guest's console teaches: what it shows once, at the end of a boot."""

import calendar
import re

from specreds_nova import markers

# Lines from the end of a console among which a marker is looked for. A prompt may follow it.
_LINES = 8
# Longest line that may contain a marker, in bytes.
_LONGEST_LINE = 512
# The kernel writes whenever it has something to say, not only during a boot.
_OF_THE_KERNEL = re.compile(rb' *\[ *\d+\.\d+\]')
_CONFIDENTIAL = re.compile(rb'passw|secret|token|credential', re.IGNORECASE)
_ESCAPES = re.compile(rb'\x1b\[[0-9;?]*[@-~]')
_WORDS = re.compile(rb'[\w.+-]+')
_DATES = frozenset(name.encode() for names in (
    calendar.day_abbr, calendar.day_name, calendar.month_abbr, calendar.month_name)
    for name in names)
# Takes the place of what differs from boot to boot.
_VARIABLE = b'\0'
_CONSTANT = re.compile(rb'[ -/:-~]+')


def marker(console: bytes, earlier: bytes) -> str | None:
    """Return the longest constant text of the last line with such a text; None without one.

    A text that the console shows twice is no marker, nor is one that it showed before an earlier
    pause of the guest, after which the boot went on.

    :param console: end of the output when the boot is over
    :param earlier: end of the output at the end of the guest's last pause before
    """
    for line in reversed(console.rsplit(b'\n', _LINES)[-_LINES:]):
        if len(line) > _LONGEST_LINE or _OF_THE_KERNEL.match(line):
            continue
        if texts := [text for text in _constant(line) if markers.valid(text.decode())]:
            if _CONFIDENTIAL.search(line):
                return None
            unique = [text for text in texts if console.count(text) == 1 and text not in earlier]
            return max(unique, key=len).decode() if unique else None
    return None


def _constant(line: bytes) -> list[bytes]:
    """Return the parts of a line that are the same after each boot."""
    rest = _WORDS.sub(_constant_word, _ESCAPES.sub(_VARIABLE, line))
    return [_cut(text.strip()) for text in _CONSTANT.findall(rest)]


def _constant_word(match: re.Match[bytes]) -> bytes:
    word = match.group()
    varies = word in _DATES or any(48 <= byte <= 57 for byte in word)
    return _VARIABLE if varies else word


def _cut(text: bytes) -> bytes:
    return text[-markers.LONGEST:].strip()
