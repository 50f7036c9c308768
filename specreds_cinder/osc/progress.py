# SPDX-License-Identifier: Apache-2.0
"""Status on stderr of what takes long."""

import sys
import time
import types

_QUIET_S = 2.0
_PACE_S = 10.0
_REPAINT_S = 0.1
_CLEAR = '\r\x1b[K'


class StatusLine:
    """A status line: rewritten in place on a terminal, printed every ten seconds elsewhere."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._next = self._began + (0 if self._terminal else _QUIET_S)

    def __enter__(self) -> 'StatusLine':
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: types.TracebackType | None) -> None:
        if self._terminal:
            print(_CLEAR, end='', file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Show a status."""
        now = time.monotonic()
        if now < self._next:
            return
        line = f'{text}, {now - self._began:.0f} s'
        if self._terminal:
            self._next = now + _REPAINT_S
            print(f'{_CLEAR}{line}', end='', file=sys.stderr, flush=True)
        else:
            self._next = now + _PACE_S
            print(line, file=sys.stderr, flush=True)
