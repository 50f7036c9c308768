# SPDX-License-Identifier: Apache-2.0
"""Running the commands of the configuration."""

import shlex
import subprocess

_TIMEOUT = 300


class CommandFailed(Exception):
    """A command of the configuration failed."""


def run(template: str, **values: str) -> str:
    """Run a command.

    :param template: a command with names in braces; it is split into words like a shell command,
        the values are not
    :param values: the values of the names
    :return: the command's standard output, without white space at its ends
    :raises CommandFailed: the command failed, or took too long
    """
    words = [word.format(**values) for word in shlex.split(template)]
    try:
        done = subprocess.run(words, check=False, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise CommandFailed(f'{words}: {exc}') from exc
    if done.returncode:
        raise CommandFailed(f'{words} ended with {done.returncode}: {done.stderr[-1000:]}')
    return done.stdout.strip()
