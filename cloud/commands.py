# SPDX-License-Identifier: Apache-2.0
"""Run programs with a time limit, and turn their failure into an error that can be read."""

from collections.abc import Callable, Mapping, Sequence
import os
import subprocess
import sys
import time

from cloud import deadline

Progress = Callable[[str], None]

# How many characters of a failed program's output go into the error message.
_QUOTED = 2000


class CloudError(Exception):
    """The cluster on this machine failed; the message says what, and which log to read."""


def silent(_line: str) -> None:
    """A progress callback that shows nothing."""


def main(work: Callable[[Progress], int], interrupted: str) -> int:
    """Run the work of a command, with its progress on standard output.

    :param work: takes the progress callback, and returns the exit status
    :param interrupted: the error if a user interrupts the work
    :return: the exit status of the work, 1 for an error
    """
    start = time.monotonic()

    def progress(line: str) -> None:
        # One write a line: several threads report.
        sys.stdout.write(f'[{time.monotonic() - start:6.1f} s] {line}\n')
        sys.stdout.flush()

    return status(lambda: work(progress), interrupted=f'interrupted; {interrupted}')


def status(work: Callable[[], int], failures: tuple[type[Exception], ...] = (CloudError,), *,
           interrupted: str = 'interrupted') -> int:
    """Run the work of a command, and print its error.

    :param work: returns the exit status
    :param failures: the errors whose message says all that a user needs
    :param interrupted: the error if a user interrupts the work
    :return: the exit status of the work, 1 for an error
    """
    try:
        return work()
    except failures as exc:
        print(f'error: {exc}', file=sys.stderr)
    except KeyboardInterrupt:
        print(f'error: {interrupted}', file=sys.stderr)
    return 1


def environment() -> dict[str, str]:
    """This process's environment without what would point Ceph's programs at another cluster."""
    return {name: value for name, value in os.environ.items()
            if name not in ('CEPH_ARGS', 'CEPH_CONF', 'CEPH_KEYRING')}


def run(argv: Sequence[str], timeout: float = 60.0,
        variables: Mapping[str, str] | None = None) -> str:
    """Run a program and return its standard output.

    :param argv: the program and its arguments; never put a secret in them
    :param timeout: seconds after which the program is killed, on a quiet machine
    :param variables: to add to its environment; the place for a secret
    :raises CloudError: the program is missing, failed, or took too long
    """
    limit = deadline.extended(timeout)
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=limit, env=environment() | dict(variables or {}))
    except FileNotFoundError as exc:
        raise CloudError(f'{argv[0]} is not installed; run ./run setup') from exc
    except subprocess.TimeoutExpired as exc:
        raise CloudError(f'no answer within {limit:.0f} s: {" ".join(argv)}') from exc
    if done.returncode != 0:
        output = (done.stderr + done.stdout).strip()[-_QUOTED:]
        raise CloudError(f'{" ".join(argv)} failed ({done.returncode}): {output}')
    return str(done.stdout)
