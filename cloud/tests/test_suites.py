# SPDX-License-Identifier: Apache-2.0
"""``./run test ARGUMENTS``: the suites that are searched for tests that match."""

import pathlib
import subprocess

import ddt
import fixtures
import testtools

from cloud.matrix import root as roots
from cloud.matrix import suites

# The table of suites and the function, of ./run, whose own commands are not to be run.
_SCRIPT = r"""
venv=$1
eval "$(sed -n '/^declare -A test_paths=/,/^)/p; /^matches()/,/^}/p' run)"
for name in "${!test_paths[@]}"; do
    if matches "$name" "${@:2}"; then echo "$name"; fi
done
"""
# The functions that make the environment, without what they call.
_ENVIRONMENT = r"""
venv=$1 root=. venv_inputs=(setup.py)
step() { echo "step: $1"; }
eval "$(sed -n '/^fail()/,/^}/p; /^setup_venv()/,/^}/p' run)"
setup_venv
"""
# A stand-in for stestr that finds a test everywhere, and refuses options as the real one.
_STESTR = """#!/bin/sh
for argument; do
    case $argument in --test-path | --exclude-regex) ;; --*) exit 2 ;; esac
done
echo a.test
"""


@ddt.ddt
class MatchesTest(testtools.TestCase):

    def matching(self, *arguments: str) -> set[str]:
        venv = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (venv / 'bin').mkdir()
        (venv / 'bin/stestr').write_text(_STESTR)
        (venv / 'bin/stestr').chmod(0o755)
        return set(subprocess.run(
            ['bash', '-c', _SCRIPT, 'bash', str(venv), *arguments], cwd=roots.PROJECT,
            capture_output=True, text=True, check=True).stdout.split())

    @ddt.data('functional', 'cloud', 'nova-cloud')
    def test_suites_of_the_matrix_are_searched_alone(self, name: str) -> None:
        _, *arguments = suites.COMMANDS[name]
        self.assertEqual({name}, self.matching(*arguments))

    @ddt.data((r'^specreds_cinder\.tests\.functional\.test_cli\.CliTestCase', {'functional'}),
              (r'^specreds_cinder', {'unit', 'functional', 'cloud'}),
              (r'^cloud\.tests', {'cloud-unit'}),
              (r'^nowhere', set()))
    @ddt.unpack
    def test_path_is_searched_where_it_leads(self, path: str, expected: set[str]) -> None:
        self.assertEqual(expected, self.matching(path))
        self.assertEqual(expected, self.matching(path, '--exclude-regex', 'x'))

    @ddt.data('test_cli', '^specreds.cinder', r'^a|^specreds_cinder\.tests', '')
    def test_other_expressions_are_searched_everywhere(self, expression: str) -> None:
        everywhere = self.matching()
        self.assertIn('engine-stories', everywhere)
        self.assertEqual(everywhere, self.matching(expression))

    @ddt.data('--until-failure', '--all-attachments')
    def test_options_of_a_run_choose_no_tests(self, option: str) -> None:
        self.assertEqual(self.matching('test_cli'), self.matching('test_cli', option))

    def test_more_arguments_are_searched_everywhere(self) -> None:
        self.assertEqual(self.matching(), self.matching(r'^cloud\.tests', 'test_cli'))


class HelpTest(testtools.TestCase):
    """``./run test --help`` installs nothing and runs no test."""

    def test_suites_are_listed(self) -> None:
        ran = subprocess.run(['./run', 'test', 'test_journal', '--help'], cwd=roots.PROJECT,
                             capture_output=True, text=True, check=True)
        self.assertIn('usage: ./run test', ran.stdout)
        self.assertIn('  functional      specreds_cinder/tests/functional\n', ran.stdout)
        self.assertEqual('', ran.stderr)


class EnvironmentTest(testtools.TestCase):
    """The environment of another checkout is not cleared."""

    def test_linked_environment_is_kept(self) -> None:
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (directory / 'other').mkdir()
        (directory / 'venv').symlink_to('other')
        ran = subprocess.run(['bash', '-c', _ENVIRONMENT, 'bash', str(directory / 'venv')],
                             cwd=roots.PROJECT, capture_output=True, text=True, check=False)
        self.assertEqual((1, ''), (ran.returncode, ran.stdout))
        self.assertIn('is a link to other: remove the link', ran.stderr)
