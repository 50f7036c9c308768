# SPDX-License-Identifier: Apache-2.0
"""Regular expressions that tenants write, for the output of tenants' guests.

RE2 searches in time linear in the text and in bounded memory, whatever the expression is, and
releases the interpreter's lock meanwhile. In return it has neither back references nor lookaround.
The time is linear in the size of the compiled expression, too, so that size is limited as well.
"""

import re2

# Bytes for the compiled expression and for the state of a search.
_MEMORY = 1 << 20
# In instructions. An expression for a line of a console has a few dozen.
_LARGEST = 300


class Expression:
    """A regular expression whose ^ and $ also match at the begin and end of a line.

    :raises ValueError: RE2 does not accept it, or it needs too much memory
    """

    def __init__(self, pattern: str) -> None:
        options = re2.Options()
        options.max_mem = _MEMORY
        options.log_errors = False
        try:
            self._compiled = re2.compile(f'(?m){pattern}', options)
        except (re2.error, UnicodeEncodeError) as exc:
            raise ValueError(f'not a regular expression of RE2, which has neither back '
                             f'references nor lookaround: {_text(exc)}') from exc
        if self._compiled.programsize > _LARGEST:
            raise ValueError('the regular expression repeats too much')

    def search(self, text: bytes) -> str | None:
        """Return the first match, or None."""
        # With str, the binding counts characters while it holds the interpreter's lock.
        match = self._compiled.search(text.decode(errors='replace').encode())
        return None if match is None else match.group(0).decode(errors='replace')


def _text(exc: Exception) -> str:
    [cause, *_] = exc.args or ('',)
    return cause.decode(errors='replace') if isinstance(cause, bytes) else str(exc)
