# SPDX-License-Identifier: Apache-2.0
"""The outcomes of rounds, counted."""

from collections.abc import Sequence
import statistics

import prettytable

from testing.race import round as rounds

KINDS = ('live-steady', 'live-bursty', 'idle', 'hung', 'dead')
OUTCOMES = (rounds.PROMOTED, rounds.LATE_DIRTY, rounds.DIRTY, rounds.ABORTED, rounds.UNDECIDED)


def count(results: Sequence[rounds.Result], kind: str, outcome: str) -> int:
    """Return the number of rounds with a kind of primary and an outcome."""
    return sum((result.kind, result.outcome) == (kind, outcome) for result in results)


def window_ms(results: Sequence[rounds.Result]) -> float | None:
    """Return the median time from the first sweep's end to the fence in force, or None."""
    windows = [result.window_s for result in results if result.window_s is not None]
    return statistics.median(windows) * 1e3 if windows else None


def table(results: Sequence[rounds.Result]) -> str:
    """Return a table of the outcomes by kind of primary."""
    shown = prettytable.PrettyTable(['primary', *OUTCOMES])
    shown.align = 'r'
    shown.align['primary'] = 'l'
    for kind in KINDS:
        shown.add_row([kind, *(count(results, kind, outcome) for outcome in OUTCOMES)])
    return str(shown)
