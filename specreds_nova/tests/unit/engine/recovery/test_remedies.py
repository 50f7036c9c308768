# SPDX-License-Identifier: Apache-2.0
"""Each failure of a recovery names the one command that helps, or says that none is needed.

What the errors say is checked after each test of recoveries and each simulation
(``testing.simulation.invariants.without_remedy``).
"""

import ast
from collections.abc import Iterator
import pathlib

import testtools

from specreds_nova.engine import model
from specreds_nova.engine import recovery
from specreds_nova.engine.recovery import verdict as verdicts
from testing.simulation import invariants

_PLACE = pathlib.Path(recovery.__file__).parent
_KINDS = ('verdicts.FAILED', 'FAILED', 'verdict.FAILED')


def _made() -> Iterator[str]:
    """Yield the places that make a failure without a remedy."""
    for path in _PLACE.rglob('*.py'):
        for node in ast.walk(ast.parse(path.read_text())):
            if (isinstance(node, ast.Call) and ast.unparse(node.func).endswith('StepVerdict')
                    and node.args and ast.unparse(node.args[0]) in _KINDS):
                yield f'{path.name}: {ast.unparse(node)[:80]}'


class RemediesTest(testtools.TestCase):
    """Failures are made by one function, which asks for the remedy."""

    def test_no_failure_is_made_without_a_remedy(self) -> None:
        [made] = _made()
        self.assertIn('verdict.py', made)

    def test_long_error_keeps_its_remedy(self) -> None:
        verdict = verdicts.failed('x' * 400, verdicts.make_active('s1'))
        self.assertEqual(verdicts.LONGEST, len(verdict.why))
        self.assertTrue(verdict.why.endswith('; openstack server set --state active s1'))

    def test_error_without_a_remedy_is_found(self) -> None:
        for error, missed in (('it has failed', True), (None, True),
                             ('x; no action is needed', False),
                             ('x; to have it so: openstack server set --state active a', False)):
            failed = model.Recovery('r', 's', 's', 'p', 'h1', 0.0, state=model.ENDED,
                                    outcome=model.FAILED, error=error)
            self.assertEqual(missed, bool(invariants.without_remedy([failed])))
