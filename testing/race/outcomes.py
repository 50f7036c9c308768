# SPDX-License-Identifier: Apache-2.0
"""The outcomes of rounds, and how many rounds had them."""

from collections.abc import Sequence
import dataclasses
import statistics

import prettytable

PROMOTED, DIRTY, LATE_DIRTY, ABORTED = 'promoted', 'dirty', 'late-dirty', 'aborted'
UNPROVEN = 'unproven'
UNDECIDED = 'undecided'
KINDS = ('live-steady', 'live-bursty', 'idle', 'hung', 'dead')
OUTCOMES = (PROMOTED, LATE_DIRTY, DIRTY, UNPROVEN, ABORTED, UNDECIDED)


@dataclasses.dataclass(frozen=True)
class Result:
    """How a round ended.

    :param kind: of primary: live-steady, live-bursty, idle, hung or dead
    :param outcome: promoted, dirty, late-dirty, unproven, aborted or undecided
    :param window_s: seconds from the first sweep's end to the fence in force, if it came to that
    :param violations: contradictions to the promises of the protocol
    :param attacks: what happened to the primary, the backup and the superposition
    :param exposed: flushes that a cached primary acknowledged in vain, as it woke while it was
        fenced: the window that the protocol states
    """

    kind: str
    outcome: str
    window_s: float | None
    violations: list[str]
    attacks: tuple[str, ...] = ()
    exposed: tuple[str, ...] = ()


def count(results: Sequence[Result], kind: str, outcome: str) -> int:
    """Return the number of rounds with a kind of primary and an outcome."""
    return sum((result.kind, result.outcome) == (kind, outcome) for result in results)


def window_ms(results: Sequence[Result]) -> float | None:
    """Return the median time from the first sweep's end to the fence in force, or None."""
    windows = [result.window_s for result in results if result.window_s is not None]
    return statistics.median(windows) * 1e3 if windows else None


def table(results: Sequence[Result]) -> str:
    """Return a table of the outcomes by kind of primary."""
    shown = prettytable.PrettyTable(['primary', *OUTCOMES])
    shown.align = 'r'
    shown.align['primary'] = 'l'
    for kind in KINDS:
        shown.add_row([kind, *(count(results, kind, outcome) for outcome in OUTCOMES)])
    return str(shown)
