# SPDX-License-Identifier: Apache-2.0
"""The mutations fit the code as it is."""

import ast
import pathlib

import testtools

from testing.mutation import table

_ROOT = pathlib.Path(__file__).parents[2]


class TableTest(testtools.TestCase):

    def test_each_mutation_applies_to_exactly_one_place(self) -> None:
        for mutation in table.MUTATIONS:
            source = (_ROOT / mutation.path).read_text()
            mutated = mutation.apply(source)
            self.assertNotEqual(source, mutated)
            ast.parse(mutated)

    def test_each_named_test_exists(self) -> None:
        for mutation in table.MUTATIONS:
            module, class_name, test = mutation.test.rsplit('.', 2)
            tree = ast.parse((_ROOT / module.replace('.', '/')).with_suffix('.py').read_text())
            tests = [function.name for node in tree.body
                     if isinstance(node, ast.ClassDef) and node.name == class_name
                     for function in node.body if isinstance(function, ast.FunctionDef)]
            self.assertIn(test, tests, mutation.name)

    def test_names_are_unique(self) -> None:
        names = [mutation.name for mutation in table.MUTATIONS]
        self.assertEqual(sorted(set(names)), sorted(names))

    def test_missing_text_is_an_error(self) -> None:
        mutation = table.Mutation('one', 'a.py', 'old', 'new', 'a.b.test_c')
        self.assertRaisesRegex(ValueError, 'one: a.py has .* 0 times', mutation.apply, 'text')
        self.assertRaisesRegex(ValueError, '2 times', mutation.apply, 'old old')
