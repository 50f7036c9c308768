# SPDX-License-Identifier: Apache-2.0
"""Markers: texts that serial consoles of servers show at the end of their boots.

A guest writes to its console whatever its tenant likes, so that hosts and engines check each
marker that they receive. A marker is literal: nothing in it has a meaning to what searches for it.
"""

import re
from typing import TypeGuard

# In characters.
SHORTEST = 8
LONGEST = 64
# Letters of a marker at least, so that a line of dashes is none.
_LETTERS = 4
# Printable ASCII without digits, which vary from boot to boot, that neither begins nor ends with a
# space.
_MARKER = re.compile(r'[!-/:-~][ -/:-~]*[!-/:-~]')


def valid(text: object) -> TypeGuard[str]:
    """Return whether a text of a guest, a host or an engine is a marker."""
    return (isinstance(text, str) and SHORTEST <= len(text) <= LONGEST
            and _MARKER.fullmatch(text) is not None
            and sum(character.isalpha() for character in text) >= _LETTERS)
