# SPDX-License-Identifier: Apache-2.0
"""The table of servers is the one of the documentation, and its tests exist."""

import pathlib

import testtools

from testing.servers import __main__ as documents
from testing.servers import actions
from testing.servers import population
from testing.servers import table

_ROOT = pathlib.Path(__file__).parents[2]


class ServersTest(testtools.TestCase):

    def test_documentation_has_the_table(self) -> None:
        self.assertEqual(documents.TABLE.read_text(), documents.servers(),
                         'run python -m testing.servers')
        self.assertEqual(documents.POPULATION.read_text(), documents.shares(),
                         'run python -m testing.servers')
        self.assertEqual(documents.ACTIONS.read_text(), documents.requests(),
                         'run python -m testing.servers')

    def test_each_row_has_a_test(self) -> None:
        for row in table.ROWS:
            self._assert_exists(row.test, row.what)

    def test_each_request_has_tests(self) -> None:
        for action in actions.ACTIONS:
            self.assertNotEqual((), action.tests)
            for test in action.tests:
                self._assert_exists(test, action.what)

    def _assert_exists(self, test: str, what: str) -> None:
        module, kind, name = test.rsplit('.', 2)
        source = (_ROOT / f'{module.replace(".", "/")}.py').read_text()
        self.assertIn(f'class {kind}(', source, what)
        self.assertIn(f'def {name}(', source, what)

    def test_worst_part_decides(self) -> None:
        self.assertEqual(table.SPECULATIVE, table.recovery('volume', 'hybrid', 'uefi'))
        self.assertEqual(table.EVACUATED, table.recovery('volume', 'ovs', 'realtime'))
        self.assertEqual(table.FAILED, table.recovery('encrypted', 'ovn', 'vtpm'))

    def test_shares_are_those_of_a_whole(self) -> None:
        for others in (population.BEFORE, {}):
            for of in population.shares(others).values():
                self.assertAlmostEqual(1.0, sum(of.values()))

    def test_share_of_an_installer_is_that_of_its_eligible_servers(self) -> None:
        # All disks of the population can have backups, and so can pinned servers.
        self.assertAlmostEqual(1.00, population.shares()['kolla-ansible'][table.SPECULATIVE])
        self.assertEqual(0.0, population.shares(
            population.BEFORE)['kolla-ansible'][table.SPECULATIVE])
