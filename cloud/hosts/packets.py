# SPDX-License-Identifier: Apache-2.0
"""Capture packets of a network."""

from collections.abc import Iterator, Sequence
import contextlib
import os
import pathlib
import selectors
import signal
import subprocess
import time

from cloud import commands

_TIMEOUT = 15.0


@contextlib.contextmanager
def capture(argv: Sequence[str], file: pathlib.Path) -> Iterator[None]:
    """Record packets for as long as the context lasts.

    :param argv: `tcpdump` with what it is to look at, in the namespace where that is
    :param file: where the packets are kept
    :raises CloudError: it does not begin
    """
    words = [*argv, '--immediate-mode', '-U', '-Z', 'root', '-w', str(file)]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, start_new_session=True) as process:
        assert process.stderr
        try:
            _await_listening(process)
            yield
        finally:
            # The program may be the child of one that entered the namespaces for it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            process.stderr.read()


def read(file: pathlib.Path, expression: str = '') -> list[str]:
    """Return a line for each recorded packet.

    :param expression: filter, in tcpdump's syntax
    """
    return commands.run(['tcpdump', '-n', '-e', '-tt', '-r', str(file), expression]).splitlines()


def _await_listening(process: 'subprocess.Popen[bytes]') -> None:
    assert process.stderr
    said = b''
    deadline = time.monotonic() + _TIMEOUT
    with selectors.DefaultSelector() as selector:
        selector.register(process.stderr, selectors.EVENT_READ)
        while b'listening on' not in said:
            left = deadline - time.monotonic()
            chunk = (os.read(process.stderr.fileno(), 4096)
                     if left > 0 and selector.select(left) else b'')
            if not chunk:
                raise commands.CloudError(f'tcpdump does not listen: {said.decode().strip()}')
            said += chunk
