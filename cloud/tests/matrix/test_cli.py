# SPDX-License-Identifier: Apache-2.0
"""The command line of ``./run matrix``."""

import argparse
import io
import pathlib
from unittest import mock

import fixtures

from cloud import commands
from cloud.matrix import cli
from cloud.matrix import platforms
from cloud.matrix import results
from cloud.matrix import root as roots
from cloud.matrix import suites
from cloud.tests.matrix import base


class CommandLineTest(base.MatrixTest):

    def run_cli(self, *words: str) -> int:
        return cli.run(self.parse(*words), commands.silent)

    def parse(self, *words: str) -> argparse.Namespace:
        return cli.parser(str(self.data)).parse_args(words)

    def test_platform_or_all(self) -> None:
        for words in (['test'], ['test', '--all', 'debian-12']):
            error = self.assertRaises(commands.CloudError, self.run_cli, *words)
            self.assertIn('--all', str(error))

    def test_unknown_suite(self) -> None:
        for words in (['debian-12', 'x'], ['--all', 'x']):
            error = self.assertRaises(commands.CloudError, self.run_cli, 'test', *words)
            self.assertIn('functional', str(error))

    def test_unknown_platform(self) -> None:
        error = self.assertRaises(commands.CloudError, self.run_cli, 'test', 'functional')
        self.assertIn('no platform: functional; there are debian-12', str(error))

    def test_shell_needs_a_root(self) -> None:
        error = self.assertRaises(commands.CloudError, self.run_cli, 'shell', 'debian-12')
        self.assertIn('./run matrix up', str(error))

    def test_setup_on_demand(self) -> None:
        for name in ('make', 'check_out'):
            self.useFixture(fixtures.MonkeyPatch(f'cloud.matrix.root.Root.{name}',
                                                 lambda *_: 'abc'))
        with mock.patch.object(roots.Root, 'install') as install:
            self.run_cli('up', 'debian-13')
            install.assert_not_called()
            self.run_cli('up', '--setup', 'debian-13')
            install.assert_called_once()

    def test_end_of_a_failed_suite_is_shown(self) -> None:
        output = 'early\n' + 'x\n' * 100 + 'FAILED functional tests\n'
        self.assertTrue(suites.ending(output).endswith('x\nFAILED functional tests'))
        self.assertNotIn('early', suites.ending(output))

    def play(self, unreachable: set[str], failing: str = '', broken: str = '') -> None:
        """Play platforms of which some cannot be made, and one fails its tests."""
        def make(root: roots.Root, *_: object) -> None:
            if root.platform.name in unreachable:
                raise platforms.Unreachable('no archive')
            if root.platform.name == broken:
                raise commands.CloudError('unmet dependencies')
            root.logs.mkdir(parents=True, exist_ok=True)
            root.results.parent.mkdir(parents=True, exist_ok=True)

        def run(root: pathlib.Path, _argv: list[str], log: pathlib.Path) -> int:
            log.write_text('2 passed, 0 failed, 0 skipped\n')
            return 1 if root.name == failing else 0

        for place, new in (('root.Root.make', make), ('jail.run', run),
                           ('root.Root.check_out', lambda *_: 'abc'),
                           ('jail.read', lambda *_: base.LISTING)):
            self.useFixture(fixtures.MonkeyPatch(f'cloud.matrix.{place}', new))

    def run_all(self, *words: str) -> tuple[int, str]:
        with mock.patch('sys.stdout', io.StringIO()) as shown:
            return self.run_cli('test', '--all', *words), shown.getvalue()

    def test_unreachable_platform_does_not_stop_the_others(self) -> None:
        self.play({base.UBUNTU.name})
        for words, count in ((['demo'], 3), ([], 3 * len(suites.COMMANDS))):
            status, text = self.run_all(*words)
            self.assertEqual(0, status)
            self.assertIn('ubuntu-24.04: not tested', text)
            self.assertEqual(count, text.count('2 passed, 0 failed, 0 skipped'))
        measured = [suite for path in self.data.glob('matrix/results/*.json')
                    for result in results.load(path) for suite in result.measurements]
        self.assertEqual(sorted(3 * [*suites.COMMANDS]), sorted(measured))

    def test_failure_beside_an_unreachable_platform_is_one(self) -> None:
        self.play({base.UBUNTU.name}, failing='debian-12')
        self.assertEqual(1, self.run_all('demo')[0])

    def test_platform_that_cannot_be_made_fails_and_does_not_stop_the_others(self) -> None:
        self.play(set(), broken='debian-12')
        status, text = self.run_all('demo')
        self.assertEqual(1, status)
        self.assertIn('debian-12: FAILED', text)
        self.assertEqual(3, text.count('2 passed, 0 failed, 0 skipped'))
        self.assertRaises(commands.CloudError, self.run_cli, 'test', 'debian-12', 'demo')

    def test_nothing_is_proved_where_no_platform_is_reachable(self) -> None:
        self.play(set(platforms.PLATFORMS))
        self.assertEqual(1, self.run_all('demo')[0])

    def test_one_platform_that_is_named_has_to_be_reachable(self) -> None:
        self.play({base.UBUNTU.name})
        self.assertRaises(platforms.Unreachable, self.run_cli, 'test', base.UBUNTU.name, 'demo')
