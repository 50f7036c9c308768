# SPDX-License-Identifier: Apache-2.0
"""README's commands that are run on a platform, and what their output says."""

from collections.abc import Mapping
import dataclasses
import re

_TOTALS = re.compile(r'^(\d+) passed, (\d+) failed, (\d+) skipped$', re.MULTILINE)

# How many lines of a failed suite's output are shown: ./run test ends with what failed.
_LINES = 60

# Arguments of ./run.
COMMANDS = {
    'functional': ('test', 'functional'),
    'cloud': ('test', 'cloud'),
    'nova-cloud': ('test', 'nova-cloud'),
    'demo': ('demo',),
}
# First of the ports of the tests' Ceph, and how far from there their cloud's ports begin: see
# ./run help. The demo has a cloud of its own.
_PORT = 'SPECREDS_TEST_PORT'
_CLOUD_PORTS = 800


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a suite.

    :param ok: whether its command succeeded
    :param seconds: duration; None if it was not recorded
    """

    ok: bool
    passed: int
    failed: int
    skipped: int
    seconds: int | None

    def __str__(self) -> str:
        text = f'{self.passed} passed, {self.failed} failed, {self.skipped} skipped'
        return text if self.ok or self.failed else f'{text}, and did not end well'


def arguments(suite: str, environment: Mapping[str, str]) -> list[str]:
    """Return the arguments of ./run for a suite.

    :param environment: variables that name the ports, also the ports of the demo
    """
    words = list(COMMANDS[suite])
    if suite == 'demo' and (port := environment.get(_PORT)):
        words += ['--port', str(int(port) + _CLOUD_PORTS)]
    return words


def outcome(status: int, output: str, seconds: float) -> Outcome:
    """Return what came of a suite. The demo counts as one test.

    :param status: exit status of its command
    :param output: what the command printed
    """
    if totals := _TOTALS.findall(output):
        passed, failed, skipped = map(int, totals[-1])
    else:
        passed, failed, skipped = int(not status), int(bool(status)), 0
    return Outcome(not status, passed, failed, skipped, round(seconds))


def ending(output: str) -> str:
    """Return the last lines of what a command printed."""
    return '\n'.join(output.splitlines()[-_LINES:])
