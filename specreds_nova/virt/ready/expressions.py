# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of tenants, over text of tenants.

RE2 searches in time linear in the text and in bounded memory, whatever the expression is, and
other threads of nova-compute run meanwhile. Back references and lookaround are what it lacks for
that. The time is linear in the size of the compiled expression, too, so that is bounded as well.
"""
import re2

# Bytes: of the compiled expression and of what a search remembers.
_MEMORY = 1 << 20
# Instructions. An expression for a line of a console has a few dozens.
_LARGEST = 300


class Expression:
    """A regular expression whose ^ and $ also match at the lines' beginnings and ends.

    :raises ValueError: it is none that RE2 understands, or it would take too much memory
    """

    def __init__(self, pattern: str) -> None:
        options = re2.Options()
        options.max_mem = _MEMORY
        options.log_errors = False
        try:
            self._compiled = re2.compile(f'(?m){pattern}', options)
        except (re2.error, UnicodeEncodeError) as error:
            raise ValueError(f'not a regular expression of RE2, which has neither back '
                             f'references nor lookaround: {_text(error)}') from error
        if self._compiled.programsize > _LARGEST:
            raise ValueError('the regular expression repeats too much')

    def search(self, text: bytes) -> str | None:
        """Return the first text that matches, None if there is none."""
        # With str, the binding counts characters while the interpreter is locked.
        found = self._compiled.search(text.decode(errors='replace').encode())
        return None if found is None else found.group(0).decode(errors='replace')


def _text(error: Exception) -> str:
    [cause, *_] = error.args or ('',)
    return cause.decode(errors='replace') if isinstance(cause, bytes) else str(error)
