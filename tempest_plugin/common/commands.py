# SPDX-License-Identifier: Apache-2.0
"""The operator's own commands, as the configuration has them."""

import shlex
import subprocess

_TIMEOUT = 300


class CommandFailed(Exception):
    """A command of the configuration did not do what it is there for."""


def run(template: str, **values: str) -> str:
    """Run a command.

    :param template: with names in braces; words are split as a shell does, values are not
    :param values: what stands for the names
    :return: its standard output, without white space at its ends
    :raises CommandFailed: it failed, or took too long
    """
    words = [word.format(**values) for word in shlex.split(template)]
    try:
        done = subprocess.run(words, check=False, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandFailed(f'{words}: {error}') from error
    if done.returncode:
        raise CommandFailed(f'{words} ended with {done.returncode}: {done.stderr[-1000:]}')
    return done.stdout.strip()
