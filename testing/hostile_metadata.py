# SPDX-License-Identifier: Apache-2.0
"""Values that a tenant may write into a server's metadata to slow its hosts down."""

from collections.abc import Callable

import hypothesis
from hypothesis import strategies

# A console of its longest, in which each of the patterns below has to be looked for everywhere.
CONSOLE = b'a' * (32 * 1024) + b'!\n'
COUNT = 1000

# Nested and overlapping repetitions: each step into one doubles the ways to match.
_REPEATED = strategies.recursive(
    strategies.sampled_from(['a', '.', r'\w', 'a?', '[a-z]', 'aa', '(a|a)', '(.|a)']),
    lambda inner: strategies.builds('({}{})'.format, inner,
                                    strategies.sampled_from(['+', '*', '{1,9}', '+?', '*?']))
    | strategies.builds('({}|{})*'.format, inner, inner),
    max_leaves=6)
# Patterns that take a search that backtracks longer than the age of the universe.
CATASTROPHIC = strategies.builds('{}{}{}'.format, strategies.sampled_from(['', '^']),
                                 _REPEATED, strategies.sampled_from(['$', 'z', '+z', '.*z$']))
_TEXT = strategies.text(max_size=300)
_NUMBERS = strategies.from_regex(r'[0-9]{1,300}([.eE][0-9]{1,9})?', fullmatch=True)
# Values of specreds:ready.
VALUES = (strategies.builds('console:{}'.format, CATASTROPHIC | _TEXT)
          | strategies.builds('{}:{}'.format, strategies.sampled_from(
              ['agent', 'line', 'tcp', 'delay', 'boot']), _TEXT | _NUMBERS)
          | _TEXT | _NUMBERS)


def each(act: Callable[[str], None]) -> None:
    """Call a function with a thousand values, the same ones in each run."""

    @hypothesis.settings(max_examples=COUNT, derandomize=True, database=None, deadline=None,
                         suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(VALUES)
    @hypothesis.example('console:(a+)+$')
    @hypothesis.example('console:^(a|a)*$')
    @hypothesis.example('console:((a*)*)*z')
    @hypothesis.example('console:(.*){1,9}z')
    def call(value: str) -> None:
        act(value)

    call()
