# SPDX-License-Identifier: Apache-2.0
"""``./run test ARGUMENTS``: the suites that are searched for tests that match."""

import os
import pathlib
import subprocess

import ddt
import fixtures
import testtools

from cloud import layout as ceph_layout
from cloud.matrix import root as roots
from cloud.matrix import suites
from cloud.openstack import layout

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
# The order of everything that ./run test does, without what it calls.
_ORDER = r"""
. ./run help >/dev/null
mkdir "$data/bin"
venv=$data
printf '#!/bin/sh\n' >"$data/bin/stestr"
chmod +x "$data/bin/stestr"
begin() { echo "begin $*"; }
for name in ended beside cluster_tests hosts_tests add_up failed_tests; do
    eval "$name() { echo $name \"\$*\"; }"
done
run_tests
"""
# A suite that needs compute hosts, without the cloud and the tests.
_HOSTS = r"""
. ./run help >/dev/null
failures=() passed=0 failed=0 skipped=0
test_hosts() { echo "cloud $*"; }
suite() { echo "suite $1"; }
hosts_tests nova-cloud disks-stories -- chosen
"""
# The tests that need a Ceph, without what they call.
_CEPHS = r"""
. ./run help >/dev/null
test_logs=$data failures=()
test_ceph() { echo "ceph $*" >>"$data/calls"; }
test_cloud() { :; }
suite() { echo "suite $* on $SPECREDS_TEST_DATA" >>"$data/calls"; }
cluster_tests functional -- $filter
sort "$data/calls"
"""
_TIMES = r"""
. ./run help >/dev/null
test_logs=$data
timed 'slow tests' false || echo "status $?"
report_times unit missing
"""
# A check beside something that ends only after it.
_CHECK = r"""
. ./run help >/dev/null
test_logs=$data failures=()
declare -A begun=()
state() { echo "${#begun[@]} begun"; printf 'failed:'; printf ' %s' "${failures[@]%%:*}"; echo; }
begin slow sh -c 'until [ -e "$1" ]; do sleep 0.01; done; exit 1' _ "$data/checked" 2>/dev/null
check quick false 2>/dev/null
state
touch "$data/checked"
ended 2>/dev/null
state
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


@ddt.ddt
class WholeRunTest(testtools.TestCase):
    """``./run test``, without what its functions start."""

    def run_script(self, script: str, data: pathlib.Path, **variables: str
                   ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ['bash', '-c', script], cwd=roots.PROJECT, capture_output=True, text=True, check=True,
            env=dict(os.environ, SPECREDS_DATA=str(data), SPECREDS_TEST_PORT='20000', **variables))

    def directory(self) -> pathlib.Path:
        return pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def test_fast_checks_end_first_and_slow_ones_run_beside_the_tests(self) -> None:
        lines = self.run_script(_ORDER, self.directory()).stdout.splitlines()
        calls = [' '.join(line.split()[:2]) for line in lines if not line.startswith('add_up ')]
        barriers = [number for number, call in enumerate(calls) if call == 'ended']
        self.assertEqual(2, len(barriers))
        fast, slow = calls[:barriers[0]], calls[barriers[0] + 1:barriers[1]]
        self.assertEqual({f'begin {name}' for name in ('shellcheck', 'check-uuid', 'pep8')},
                         set(fast))
        self.assertEqual({'begin mypy', 'begin docs', 'begin tempest'}, set(slow[:3]))
        self.assertEqual(['beside unit', 'cluster_tests functional', 'hosts_tests nova-cloud'],
                         slow[3:])

    def test_check_waits_for_nothing_that_runs_beside_it(self) -> None:
        output = self.run_script(_CHECK, self.directory()).stdout.splitlines()
        self.assertEqual(['1 begun', 'failed: quick', '0 begun', 'failed: quick slow'], output)

    def test_tempest_has_ports_and_a_directory_of_its_own(self) -> None:
        lines = self.run_script(_ORDER, self.directory()).stdout.splitlines()
        [words] = [line.split() for line in lines if line.startswith('begin tempest ')]
        first = int(words[words.index('--port') + 1])
        # Before it are the ports of the Ceph and of the cloud of the other tests.
        self.assertEqual(20800 + layout.PORTS + ceph_layout.PORTS, first)
        directory = pathlib.Path(words[words.index('--data') + 1]).name
        self.assertNotIn(directory, ('test', 'test-cloud', 'test-hosts', 'test-tempest'))

    def test_clouds_of_all_suites_have_the_cache_modes_that_are_set(self) -> None:
        for modes, expected in (('', 0), ('network=writeback', 2)):
            output = self.run_script(_HOSTS, self.directory(),
                                     SPECREDS_TEST_CACHEMODES=modes).stdout
            self.assertEqual(['suite nova-cloud', 'suite disks-stories'], [
                line for line in output.splitlines() if line.startswith('suite')])
            self.assertEqual(2, output.count('cloud up --hosts 3'))
            self.assertEqual(expected, output.count(' --cachemodes network=writeback --port '))

    @ddt.data('', r'^specreds_cinder\.tests\.functional',
              r'^specreds_cinder\.tests\.functional --exclude-regex x')
    def test_functional_tests_have_a_ceph_per_process(self, words: str) -> None:
        data = self.directory()
        output = self.run_script(_CEPHS, data, filter=words).stdout
        # Those between them belong to the second cluster of a test.
        self.assertEqual([f'ceph {number} up --port {port}'
                          for number, port in enumerate((20000, 20200, 20400, 20600), 1)],
                         [line for line in output.splitlines() if ' up ' in line])
        self.assertEqual(8, output.count(' wipe\n'))
        directories = ':'.join(str(data / name) for name in ('test', 'test-2', 'test-3', 'test-4'))
        suite = f'suite functional --concurrency 4 {words}'.strip()
        self.assertIn(f'{suite} on {directories}\n', output)

    def test_few_functional_tests_have_one_ceph(self) -> None:
        data = self.directory()
        output = self.run_script(_CEPHS, data, filter='test_latch').stdout
        self.assertEqual(1, output.count(' up --port 20000'))
        self.assertIn(f'suite functional --concurrency 1 test_latch on {data}/test\n', output)

    def test_times_of_all_suites_are_reported(self) -> None:
        data = self.directory()
        (data / 'unit.log').write_text('Ran: 7 tests in 123.4 sec.\n')
        ran = self.run_script(_TIMES, data)
        report = ran.stdout.splitlines()
        self.assertEqual(['status 1', '   123 s, beside others: unit tests'], report[:2])
        self.assertRegex(report[2], r'^ +\d s, processors +\d+ % idle: slow tests$')
        self.assertEqual(3, len(report))
        self.assertRegex(ran.stderr, r'slow tests: \d s, processors \d+ % idle\n')
