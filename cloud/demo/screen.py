# SPDX-License-Identifier: Apache-2.0
"""Output of the demo while it runs: its actions, and the current state of the cloud."""

from collections.abc import Callable, Iterator
import contextlib
import sys
import threading
import time
from typing import TextIO

# Seconds between two updates of the state: in a terminal, and in a log.
_TERMINAL, _KEPT = 0.5, 5.0
_CLEAR = '\r\x1b[K'
_BOLD, _PLAIN = '\x1b[1m', '\x1b[0m'


class Screen:
    """Lines with the time since the start, and below them the current state.

    :param stream: a terminal shows the state in one line that changes, any other stream gets a
        new line from time to time
    """

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._shown = False
        self.state: Callable[[], str] = str

    @property
    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._began

    def title(self, text: str) -> None:
        """Print the title of a new part."""
        self._write('')
        self._write(f'{_BOLD}{text}{_PLAIN}' if self._terminal else f'== {text} ==')

    def say(self, text: str) -> None:
        """Print a line with the time since the start."""
        self._write(f'[{self.elapsed:5.0f} s] {text}')

    def show(self, text: str) -> None:
        """Print a text unchanged."""
        self._write(text)

    @contextlib.contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Print an action, and update the state below it while the context lasts."""
        self.say(what)
        over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(over, what), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self._clear()

    def _watch(self, over: threading.Event, what: str) -> None:
        began = time.monotonic()
        while not over.wait(_TERMINAL if self._terminal else _KEPT):
            state = self.state()
            line = f'{time.monotonic() - began:5.1f} s {what}' + (f' | {state}' if state else '')
            with self._lock:
                if self._terminal:
                    self._stream.write(f'{_CLEAR}        {line[:150]}')
                    self._shown = True
                else:
                    self._stream.write(f'          {line}\n')
                self._stream.flush()

    def _clear(self) -> None:
        with self._lock:
            if self._shown:
                self._stream.write(_CLEAR)
                self._stream.flush()
                self._shown = False

    def _write(self, line: str) -> None:
        self._clear()
        with self._lock:
            self._stream.write(line + '\n')
            self._stream.flush()
