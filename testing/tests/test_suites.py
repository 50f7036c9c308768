# SPDX-License-Identifier: Apache-2.0
"""``./run check`` and ``./run test``: which suites run, and what makes a run a failure."""

import fcntl
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import ddt
import fixtures
import testtools

from cloud import commands as cloud_commands
from testing.suites import commands
from testing.suites import declared
from testing.suites import outcome
from testing.suites import places
from testing.suites import report
from testing.suites import running
from testing.suites import search
from testing.suites import tiers

_TOP = pathlib.Path(__file__).parents[2]
_SUITE = """\
name = "guests"
needs = "processors"
tier = "check"
tests = {least}
skips = ["expected_skip"]
"""
_TESTS = """\
import unittest
{extra}

class Guests(unittest.TestCase):
    def test_one(self):
        pass

    def test_two(self):
        {two}
"""


class CheckoutTest(testtools.TestCase):
    """A test with a checkout that has one suite."""

    def setUp(self) -> None:
        super().setUp()
        self.top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.path = self.top / 'bench/guests'
        self.path.mkdir(parents=True)
        (self.top / 'bench/__init__.py').touch()
        (self.path / '__init__.py').touch()
        self.data = self.top / 'data'
        (self.data / 'test-logs').mkdir(parents=True)

    def write(self, two: str = 'pass', extra: str = '', least: int = 2) -> declared.Suite:
        (self.path / 'suite.toml').write_text(_SUITE.format(least=least))
        (self.path / 'test_guests.py').write_text(_TESTS.format(two=two, extra=extra))
        [suite] = declared.load(self.top)
        return suite


@ddt.ddt
class DeclaredTest(CheckoutTest):
    """Declarations of suites."""

    def test_each_directory_of_tests_is_one_suite(self) -> None:
        suites = declared.load(_TOP)
        for file in _TOP.glob('[!.]*/**/test_*.py'):
            path = str(file.relative_to(_TOP))
            # Tempest runs those of the plug-in.
            if path.startswith('tempest_plugin/') and '/tests/' not in path:
                continue
            self.assertEqual(1, len([suite for suite in suites if not suite.release
                                     and path.startswith(f'{suite.path}/')]), path)

    def test_tiers_contain_each_other(self) -> None:
        suites = declared.load(_TOP)
        check, test, everything = (declared.of_tier(suites, tier) for tier in declared.TIERS)
        self.assertEqual(suites, everything)
        self.assertEqual(test, everything[:len(test)])
        self.assertEqual(check, test[:len(check)])
        self.assertEqual({declared.PROCESSORS}, {suite.needs for suite in check})

    def test_tests_of_documents_are_in_the_first_tier(self) -> None:
        reads = re.compile(r"doc/source|'source'")
        suites = [(suite, module) for suite in declared.load(_TOP) if not suite.release
                  for module in (_TOP / suite.path).rglob('test_*.py')
                  if reads.search(module.read_text())]
        self.assertNotEqual([], suites)
        self.assertEqual([], [str(module) for suite, module in suites
                              if suite.tier != declared.CHECK or suite.later])

    def test_what_only_the_last_tier_runs_exists(self) -> None:
        for suite in declared.load(_TOP):
            for name in suite.later:
                module, *words = name.split('.')
                source = (_TOP / suite.path / f'{module}.py').read_text()
                for keyword, word in zip(('class', 'def'), words, strict=False):
                    self.assertRegex(source, rf'\b{keyword} {word}\(', suite.name)
            self.assertEqual('', suite.excluded(declared.ALL))

    @ddt.data('test_a.One.test_b', 'test_a.Two.test_b', 'test_a.Two.test_c_1_red', 'test_d.X.test')
    def test_module_class_or_test_is_left_out(self, name: str) -> None:
        suite = declared.Suite('one', 'bench', declared.PROCESSORS, declared.CHECK, 1,
                               later=('test_a.One', 'test_a.Two.test_c', 'test_d'))
        self.assertEqual(name != 'test_a.Two.test_b',
                         re.search(suite.excluded(declared.CHECK), f'bench.{name}') is not None)

    def test_last_tier_has_a_least_number_of_its_own(self) -> None:
        suite = declared.Suite('one', 'bench', declared.PROCESSORS, declared.CHECK, 1)
        more = declared.Suite('one', 'bench', declared.PROCESSORS, declared.CHECK, 1, 2)
        self.assertEqual([1, 1], [each.least(declared.TEST) for each in (suite, more)])
        self.assertEqual([1, 2], [each.least(declared.ALL) for each in (suite, more)])

    @ddt.data('tier = "never"', 'needs = "luck"', 'color = "red"', 'tests = 0', 'name',
               'skips = "text"', 'skips = ["text("]', 'later = "text"')
    def test_wrong_declaration_is_an_error_that_names_the_file(self, line: str) -> None:
        self.write()
        file = self.path / 'suite.toml'
        kept = [each for each in file.read_text().splitlines()
                if each.split()[0] != line.split()[0]]
        file.write_text('\n'.join([*kept, line]))
        error = self.assertRaises(declared.Invalid, declared.load, self.top)
        self.assertIn(str(file), str(error))

    def test_variable_that_a_user_has_set_stays(self) -> None:
        suite = declared.Suite('one', 'bench', declared.PROCESSORS, declared.CHECK, 1,
                               first={'SPECREDS_ROUNDS_OF_ONE': '10'})
        self.assertEqual({'SPECREDS_ROUNDS_OF_ONE': '10'}, suite.variables(declared.TEST))
        self.useFixture(fixtures.EnvironmentVariable('SPECREDS_ROUNDS_OF_ONE', '200'))
        self.assertEqual({}, suite.variables(declared.TEST))

    def test_tests_without_a_declaration_are_an_error(self) -> None:
        self.write()
        (self.top / 'cloud/tests').mkdir(parents=True)
        (self.top / 'cloud/tests/test_lost.py').touch()
        error = self.assertRaises(declared.Invalid, declared.load, self.top)
        self.assertIn('cloud/tests/test_lost.py is in no suite', str(error))

    @ddt.data('tests/more/test_lost.py', 'tests/more/deep/test_lost.py', 'tests/lost_test.py')
    def test_tests_that_a_search_does_not_find_are_an_error(self, lost: str) -> None:
        self.path = self.top / 'bench/tests'
        self.path.mkdir()
        (self.path / '__init__.py').touch()
        self.write()
        file = self.top / 'bench' / lost
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.parent.name == 'deep':
            (file.parent / '__init__.py').touch()
        file.touch()
        error = self.assertRaises(declared.Invalid, declared.load, self.top)
        self.assertIn(str(file), str(error))

    def test_two_suites_of_one_name_are_an_error(self) -> None:
        self.write()
        (self.top / 'cloud').mkdir()
        (self.top / 'cloud/suite.toml').write_text((self.path / 'suite.toml').read_text())
        error = self.assertRaises(declared.Invalid, declared.load, self.top)
        self.assertIn('guests', str(error))


@ddt.ddt
class SearchTest(testtools.TestCase):
    """Words of the command line that choose tests."""

    def find(self, *words: str) -> dict[str, tuple[str, ...]]:
        return {choice.suite.name: choice.modules
                for choice in search.find(_TOP, declared.load(_TOP), words)}

    def test_name_of_a_suite_is_the_whole_suite(self) -> None:
        self.assertEqual({'functional': (), 'engine': ()}, self.find('functional', 'engine'))

    @ddt.data('specreds_cinder/tests/functional/test_cli.py', 'functional.test_cli',
              r'^specreds_cinder\.tests\.functional\.test_cli\.CliTestCase')
    def test_part_of_a_suite_is_found_without_an_import(self, word: str) -> None:
        if word.endswith('CliTestCase'):
            word = word.removesuffix('CliTestCase')
        self.assertEqual({'functional': ('specreds_cinder.tests.functional.test_cli',)},
                         self.find(word))

    def test_name_of_a_test_is_found(self) -> None:
        name = 'test_name_of_a_test_is_found'
        self.assertEqual({'testing-unit': (__name__,)}, self.find(name))

    def test_name_with_what_a_decorator_adds_is_found(self) -> None:
        self.assertEqual({'testing-unit': (__name__,)}, self.find(
            'test_part_of_a_suite_is_found_without_an_import_2_functional'))

    def test_stories_are_all_long_suites(self) -> None:
        self.assertLessEqual({'nova-stories', 'engine-stories', 'ovn-stories'},
                             set(self.find('stories')))

    def test_path_may_be_written_in_several_ways(self) -> None:
        for word in ('./testing/tests/test_suites.py', f'{_TOP}/testing/tests/test_suites.py'):
            self.assertEqual({'testing-unit': (__name__,)}, self.find(word), word)

    def test_word_that_is_no_regular_expression_is_named(self) -> None:
        error = self.assertRaises(search.Invalid, self.find, 'test_a[')
        self.assertIn('test_a[', str(error))

    def test_nothing_is_found(self) -> None:
        self.assertEqual({}, self.find('no' + '_such_name'))


@ddt.ddt
class RunTest(CheckoutTest):
    """Runs of a suite, by the real stestr."""

    def run_suite(self, suite: declared.Suite, regex: str = '') -> outcome.Outcome:
        self.useFixture(fixtures.EnvironmentVariable(
            'PYTHONPATH', os.pathsep.join([str(self.top), str(_TOP)])))
        runner = running.Runner(self.top, self.data, declared.CHECK)
        [choice] = search.find(self.top, [suite], [regex or suite.name])
        return runner.run(choice, 1, quiet=True)

    def test_all_pass(self) -> None:
        ended = self.run_suite(self.write())
        self.assertEqual((2, []), (ended.count(outcome.PASSED), ended.wrong))

    def test_failure_is_wrong_and_has_its_words(self) -> None:
        ended = self.run_suite(self.write('self.assertEqual("red", "blue")'))
        self.assertEqual(1, ended.count(outcome.FAILED))
        self.assertIn('guests: bench.guests.test_guests.Guests.test_two: failed', ended.wrong)
        self.assertIn('blue', '\n'.join(report.failures([ended])))

    def test_words_of_a_failure_end_with_its_cause(self) -> None:
        suite = self.write(
            'from testtools.content import text_content; '
            'self.addDetail("warnings", text_content("noted\\n" * 1000)); '
            'self.addDetail("lost services", text_content("cn1/switch ended")); '
            'self.addCleanup(self.fail, "clean-up failed"); '
            'self.assertEqual("red", "blue")', extra='import testtools')
        file = self.path / 'test_guests.py'
        file.write_text(file.read_text().replace('unittest.TestCase', 'testtools.TestCase'))
        [words] = [test.words for test in self.run_suite(suite).tests
                   if test.status == outcome.FAILED]
        positions = [words.index(word) for word in ('noted', 'clean-up failed', "'blue'")]
        self.assertEqual(sorted(positions), positions, words)
        self.assertTrue(words.endswith('\ncn1/switch ended'), words)
        self.assertEqual(12, words.count('noted\n'), words)

    def test_test_that_passes_every_second_time_is_wrong(self) -> None:
        counter = self.top / 'attempts'
        ended = self.run_suite(self.write(
            f'import pathlib; counter = pathlib.Path("{counter}"); first = not counter.exists(); '
            'counter.touch(); self.assertFalse(first)'))
        self.assertNotEqual([], ended.wrong)

    def test_import_that_fails_is_wrong(self) -> None:
        ended = self.run_suite(self.write(extra='import no_such_module'))
        self.assertNotEqual([], ended.wrong)

    def test_module_that_skips_itself_is_wrong(self) -> None:
        ended = self.run_suite(self.write(extra='raise unittest.SkipTest("not installed")'))
        self.assertIn('not installed', '\n'.join(ended.wrong))

    def test_skip_that_is_not_expected_is_wrong(self) -> None:
        ended = self.run_suite(self.write('self.skipTest("no cluster")', least=1))
        self.assertEqual(1, len(ended.wrong))
        self.assertIn('no cluster', ended.wrong[0])

    def test_expected_skip_is_right(self) -> None:
        suite = self.write('self.skipTest("no cluster")', least=1)
        file = self.path / 'test_guests.py'
        file.write_text(file.read_text().replace('test_two', 'test_expected_skip'))
        self.assertEqual([], self.run_suite(suite).wrong)

    @ddt.data('os._exit(0)', 'os.kill(os.getpid(), 11)')
    def test_worker_that_dies_in_a_test_is_wrong(self, death: str) -> None:
        ended = self.run_suite(self.write(death, extra='import os', least=1))
        self.assertEqual(['guests: bench.guests.test_guests.Guests.test_two: failed'], ended.wrong)
        self.assertIn('did not end', '\n'.join(report.failures([ended])))

    @ddt.data('os._exit(0)', 'os.kill(os.getpid(), 11)')
    def test_worker_that_dies_between_tests_is_wrong(self, death: str) -> None:
        suite = self.write(extra='import os', least=1)
        with (self.path / 'test_guests.py').open('a') as file:
            file.write(f'\n    @classmethod\n    def tearDownClass(cls):\n        {death}\n'
                       '\n\nclass Later(unittest.TestCase):\n    def test(self):\n        pass\n')
        ended = self.run_suite(suite)
        self.assertEqual(2, ended.count(outcome.PASSED))
        self.assertEqual(['guests: bench.guests.test_guests.Later.test: failed'], ended.wrong)
        self.assertIn('did not begin', '\n'.join(report.failures([ended])))

    def test_class_that_cannot_begin_stands_for_its_tests(self) -> None:
        suite = self.write(extra='import os', least=1)
        with (self.path / 'test_guests.py').open('a') as file:
            file.write('\n    @classmethod\n    def setUpClass(cls):\n        os.stat("/none")\n')
        self.assertEqual('setUpClass (bench.guests.test_guests.Guests)',
                         self.run_suite(suite).tests[0].name)
        self.assertEqual(1, self.run_suite(suite).count(outcome.FAILED))

    @ddt.data('PYTHONOPTIMIZE', 'PYTHON', 'GIT_DIR', 'GIT_INDEX_FILE', 'GIT_WORK_TREE')
    def test_variable_of_the_user_does_not_change_how_tests_run(self, name: str) -> None:
        suite = self.write(f'assert os.environ.get({name!r}), "this one fails"',
                           extra='import os', least=1)
        self.useFixture(fixtures.EnvironmentVariable(name, '1'))
        ended = self.run_suite(suite)
        self.assertEqual(['guests: bench.guests.test_guests.Guests.test_two: failed'], ended.wrong)

    def test_too_few_tests_are_wrong(self) -> None:
        ended = self.run_suite(self.write(least=3))
        self.assertEqual(['guests: 2 tests passed, and suite.toml says at least 3'], ended.wrong)

    def test_chosen_test_runs_alone(self) -> None:
        ended = self.run_suite(self.write('self.fail()'), 'test_one')
        self.assertEqual((1, []), (len(ended.tests), ended.wrong))

    def test_module_that_cannot_be_read_is_named(self) -> None:
        suite = self.write(extra='def broken(:')
        error = self.assertRaises(search.Invalid, self.run_suite, suite, 'test_one')
        self.assertIn(str(self.path / 'test_guests.py'), str(error))

    def test_chosen_module_that_cannot_be_imported_is_wrong(self) -> None:
        ended = self.run_suite(self.write(extra='import no_such_module'), 'test_one')
        self.assertNotEqual([], ended.wrong)

    def test_time_of_each_test_is_kept(self) -> None:
        ended = self.run_suite(self.write())
        report.keep(self.data, [ended])
        self.assertEqual(['guests'], list(report.durations(self.data)))


class OrderTest(CheckoutTest):
    """A run of a whole tier."""

    def test_fast_check_that_fails_ends_the_run(self) -> None:
        self.useFixture(fixtures.MonkeyPatch('testing.suites.commands.COMMANDS', (
            commands.Command('fast', ('false',), fast=True),
            commands.Command('slow', ('true',)))))
        run = tiers.Tier(self.top, self.data, declared.CHECK, lambda line: None)
        ended = run.all([])
        self.assertEqual(['fast'], [each.name for each in ended])
        self.assertEqual('0 passed, 1 failed, 0 skipped', report.totals(ended))

    def test_error_of_the_run_is_a_failure_and_the_rest_still_runs(self) -> None:
        self.useFixture(fixtures.MonkeyPatch('testing.suites.commands.COMMANDS', (
            commands.Command('missing', ('/no/such/program',)),
            commands.Command('other', ('true',)))))
        run = tiers.Tier(self.top, self.data, declared.CHECK, lambda line: None)
        ended = {each.name: each for each in run.all([])}
        self.assertEqual({'missing', 'other'}, set(ended))
        self.assertEqual([], ended['other'].wrong)
        self.assertIn('missing: did not begin or end well: failed', ended['missing'].wrong)
        self.assertIn('/no/such/program', '\n'.join(report.failures(ended.values())))

    def test_cluster_that_does_not_come_up_is_a_failure(self) -> None:
        suite = declared.Suite('functional', 'bench/guests', declared.CEPH, declared.TEST, 1)
        self.useFixture(fixtures.EnvironmentVariable('SPECREDS_TEST_PORT', '1'))
        self.useFixture(fixtures.EnvironmentVariable('PYTHONPATH', str(_TOP)))
        run = tiers.Tier(self.top, self.data, declared.TEST, lambda line: None)
        ended = run.chosen([search.Choice(suite)])
        self.assertEqual(1, len(ended))
        self.assertIn('Ceph: did not begin or end well: failed', ended[0].wrong)


class PlacesTest(testtools.TestCase):
    """Clusters of a run."""

    def test_cluster_that_cannot_be_removed_is_an_error(self) -> None:
        data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (data / 'test-logs').mkdir()
        # A stand-in for the program that makes and removes clusters.
        program = data / 'program'
        program.write_text('#!/bin/sh\ncase $4 in wipe) [ -e "$0.up" ] && exit 1; ;; '
                           'up) touch "$0.up" ;; esac\n')
        program.chmod(0o755)
        self.useFixture(fixtures.MonkeyPatch('sys.executable', str(program)))
        made = places.Places(_TOP, data, lambda: False, lambda line: None)
        with testtools.ExpectedException(cloud_commands.CloudError, '.*cloud wipe failed'), \
                made.volumes(data):
            self.assertTrue(pathlib.Path(f'{program}.up').exists())


class ProgramTest(testtools.TestCase):
    """The program ``./run test``."""

    def setUp(self) -> None:
        super().setUp()
        self.data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.argv = [sys.executable, '-m', 'testing.suites', 'test']

    def start(self, *words: str) -> 'subprocess.Popen[str]':
        return subprocess.Popen(
            [*self.argv, *words], cwd=_TOP, env={**os.environ, 'SPECREDS_DATA': str(self.data)},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True)

    def test_word_that_means_nothing_beside_another_ends_the_run(self) -> None:
        name = 'no_such' + '_name'
        program = self.start('tempest-unit', name)
        output, errors = program.communicate()
        self.assertEqual(1, program.returncode, output)
        self.assertIn(f'no test matches: {name}', errors)

    def test_option_is_not_taken_for_the_name_of_a_test(self) -> None:
        program = self.start('tempest-unit', '--concurrency', '2')
        _output, errors = program.communicate()
        self.assertEqual(2, program.returncode)
        self.assertIn('unrecognized arguments: --concurrency', errors)

    def test_second_run_in_a_directory_names_the_first(self) -> None:
        with (self.data / 'test-lock').open('w') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write('4711 (test all)')
            lock.flush()
            program = self.start('tempest-unit')
            _output, errors = program.communicate()
        self.assertEqual(1, program.returncode)
        self.assertIn(f'{self.data} is in use by process 4711 (test all): wait', errors)
        self.assertFalse((self.data / 'test-logs').exists())

    def test_run_that_is_stopped_reports_what_ended_and_what_did_not_begin(self) -> None:
        # All processes get the signal, as from timeout(1).
        self.argv = [sys.executable, '-c', textwrap.dedent("""\
            import sys
            from testing.suites import __main__ as program, commands, declared
            commands.COMMANDS = (
                commands.Command('first', ('sh', '-c', 'kill 0; sleep 600'), alone=True),
                commands.Command('second', ('true',), alone=True))
            declared.load = lambda top: []
            sys.exit(program.main(['check']))
            """)]
        program = self.start()
        output, _errors = program.communicate()
        self.assertEqual(1, program.returncode, output)
        self.assertIn('FAILED first: exit status -15: failed\n', output)
        self.assertIn('    not begun: second\n', output)
        self.assertIn('FAILED run: stopped by SIGTERM: failed\n', output)


class DocumentsTest(CheckoutTest):
    """The check of the documents."""

    def test_warning_is_wrong_again_in_the_next_run(self) -> None:
        source = self.top / 'doc/source'
        source.mkdir(parents=True)
        (source / 'conf.py').touch()
        (source / 'index.rst').write_text('One\n===\n\n:doc:`missing`\n')
        [check] = [each for each in commands.COMMANDS if each.name == 'docs']
        for _ in range(2):
            run = tiers.Tier(self.top, self.data, declared.CHECK, lambda line: None)
            self.useFixture(fixtures.MonkeyPatch('testing.suites.commands.COMMANDS', (check,)))
            self.assertEqual(['docs: exit status 1: failed'], [
                line for each in run.all([]) for line in each.wrong])


class HelpTest(testtools.TestCase):
    """``--help`` installs nothing."""

    def test_suites_are_listed_on_a_bare_machine(self) -> None:
        environment = {'PATH': os.environ['PATH'], 'SPECREDS_DATA': '/nowhere'}
        ran = subprocess.run(
            ['/usr/bin/python3', '-I', '-c', textwrap.dedent(f"""\
                import sys
                sys.path.insert(0, {str(_TOP)!r})
                from testing.suites import __main__ as program
                program.main(['test', '--help'])
                """)], env=environment, capture_output=True, text=True, check=True)
        self.assertIn('specreds_cinder/tests/functional\n', ran.stdout)
