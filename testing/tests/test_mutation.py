# SPDX-License-Identifier: Apache-2.0
"""The mutations fit the code as it is."""

import ast
import pathlib
import subprocess
import sys

import ddt
import fixtures
import testtools

from cloud import commands
from testing.mutation import looks
from testing.mutation import runner
from testing.mutation import table

_ROOT = pathlib.Path(__file__).parents[2]
_MUTATIONS = (*table.MUTATIONS, *looks.MUTATIONS)


class TableTest(testtools.TestCase):

    def test_each_mutation_applies_to_exactly_one_place(self) -> None:
        for mutation in _MUTATIONS:
            source = (_ROOT / mutation.path).read_text()
            mutated = mutation.apply(source)
            self.assertNotEqual(source, mutated)
            ast.parse(mutated)

    def test_each_named_test_exists(self) -> None:
        tests: dict[str, set[str]] = {}
        for mutation in _MUTATIONS:
            module, class_name, test = mutation.test.rsplit('.', 2)
            if module not in tests:
                tree = ast.parse((_ROOT / module.replace('.', '/')).with_suffix('.py').read_text())
                tests[module] = {f'{kind.name}.{each.name}' for kind in tree.body
                                 if isinstance(kind, ast.ClassDef)
                                 for each in kind.body if isinstance(each, ast.FunctionDef)}
            self.assertIn(f'{class_name}.{test}', tests[module], mutation.name)

    def test_names_are_unique(self) -> None:
        names = [mutation.name for mutation in _MUTATIONS]
        self.assertEqual(sorted(set(names)), sorted(names))

    def test_test_of_a_last_look_says_what_happens_meanwhile(self) -> None:
        for mutation in looks.MUTATIONS:
            self.assertIn('meanwhile', mutation.test.rpartition('.')[2], mutation.name)
            self.assertFalse(mutation.needs_ceph, mutation.name)

    def test_missing_text_is_an_error(self) -> None:
        mutation = table.Mutation('one', 'a.py', 'old', 'new', 'a.b.test_c')
        self.assertRaisesRegex(ValueError, 'one: a.py has .* 0 times', mutation.apply, 'text')
        self.assertRaisesRegex(ValueError, '2 times', mutation.apply, 'old old')


_TESTS = """
import pathlib
import unittest
import ddt
import code_of

@ddt.ddt
class CodeTest(unittest.TestCase):
    @ddt.data(1, 2)
    def test_double(self, number):
        self.assertEqual(number + number, code_of.double(number))
    def test_double_of_nothing(self):
        self.fail('it has another name')
    def test_or_skip(self):
        if code_of.double(1) != 2:
            self.skipTest('nothing to test')
    def test_on_a_ceph_that_breaks(self):
        used = pathlib.Path(__file__).with_name('used')
        self.assertFalse(used.exists(), 'broken')
        used.touch()
"""


@ddt.ddt
class RunnerTest(testtools.TestCase):
    """Mutations of a checkout with one function, and one test."""

    def setUp(self) -> None:
        super().setUp()
        self.checkout = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (self.checkout / 'code_of.py').write_text('def double(number):\n    return 2 * number\n')
        self.package = 'tests.unit'

    def noticed(self, new: str, test: str = 'test_double', first: str = '') -> bool:
        """Return whether a test notices that a function returns something else.

        :param first: the code of the package of the test
        """
        place = self.checkout
        for name in self.package.split('.'):
            place /= name
            place.mkdir(exist_ok=True)
            (place / '__init__.py').write_text(first)
        (place / 'test_code.py').write_text(_TESTS)
        for words in (['init', '-q'], ['add', '.']):
            subprocess.run(['git', '-C', str(self.checkout), *words], check=True)
        return self.run_tests(new, test)[0].noticed

    def run_tests(self, new: str, *tests: str) -> list[runner.Result]:
        return runner.Runner(self.checkout, {}, lambda _text: None).run([table.Mutation(
            test, 'code_of.py', '2 * number', new, f'{self.package}.test_code.CodeTest.{test}')
            for test in tests])

    @ddt.data('tests.unit', 'specreds_cinder.tests.functional')
    def test_mutation_is_noticed_by_any_test_of_the_name_that_ddt_has_made(
            self, package: str) -> None:
        self.package = package
        self.assertTrue(self.noticed('number + 1'))
        self.assertFalse(self.noticed('number * 2'))

    @ddt.data('tests.unit', 'specreds_cinder.tests.functional')
    def test_test_that_does_not_exist_proves_nothing(self, package: str) -> None:
        self.package = package
        self.assertRaises(commands.CloudError, self.noticed, '0', 'test_triple')

    def test_test_that_does_not_exist_beside_one_of_ddt_is_an_error(self) -> None:
        self.noticed('number + 1')
        self.assertRaisesRegex(commands.CloudError, 'no .*test_triple', self.run_tests,
                               '0', 'test_double', 'test_triple')

    @ddt.data('tests.unit', 'specreds_cinder.tests.functional')
    def test_test_that_is_skipped_with_the_change_notices_nothing(self, package: str) -> None:
        self.package = package
        self.assertRaisesRegex(commands.CloudError, 'skipped', self.noticed, '0', 'test_or_skip')

    @ddt.data('tests.unit', 'specreds_cinder.tests.functional')
    def test_module_that_cannot_be_loaded_with_the_change_is_an_error(self, package: str) -> None:
        self.package = package
        self.assertRaisesRegex(commands.CloudError, 'no_such_module', self.noticed,
                               '0\nimport no_such_module')

    def test_ceph_that_breaks_meanwhile_is_an_error(self) -> None:
        self.package = 'specreds_cinder.tests.functional'
        self.assertRaisesRegex(commands.CloudError, '(?s)fails without a mutation.*broken',
                               self.noticed, 'number * 2', 'test_on_a_ceph_that_breaks')

    def test_no_mutation_is_an_error(self) -> None:
        ran = subprocess.run(
            [sys.executable, '-m', 'testing.mutation', '--with-ceph', 'cut-shared-too-late'],
            cwd=_ROOT, capture_output=True, text=True)
        self.assertEqual((2, ''), (ran.returncode, ran.stdout))

    def test_module_that_is_loaded_before_the_change_is_an_error(self) -> None:
        self.assertRaisesRegex(commands.CloudError, 'code_of is loaded before', self.noticed, '0',
                               first='import code_of\n')

    def test_change_that_ends_the_process_is_an_error(self) -> None:
        self.assertRaisesRegex(commands.CloudError, 'test_double: exit status 7', self.noticed,
                               '__import__("os")._exit(7)')
