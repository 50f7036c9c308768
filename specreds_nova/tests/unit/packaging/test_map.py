# SPDX-License-Identifier: Apache-2.0
"""The map of the source: each file and name on it exists."""

import ast
import re

import testtools

from specreds_nova.tests.unit.packaging import base

_PAGE = base.ROOT / 'doc/source/contributor/map.rst'
_PLACE = re.compile(r'``([\w./-]+\.py)``: ``([\w.]+)``')
_LEAST = 20


def defines(source: str, name: str) -> bool:
    """Return whether a module defines a name, without importing the module.

    :param name: of a class, function or variable; a dot leads to what a class defines
    """
    body: list[ast.stmt] = ast.parse(source).body
    *classes, last = name.split('.')
    for each in classes:
        body = [statement for parent in body if isinstance(parent, ast.ClassDef)
                and parent.name == each for statement in parent.body]
    return last in {defined for statement in body for defined in _names(statement)}


def _names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    return []


class MapTest(testtools.TestCase):

    def test_files_and_names_exist(self) -> None:
        places = _PLACE.findall(_PAGE.read_text())
        self.assertGreaterEqual(len(places), _LEAST)
        for file, name in places:
            path = base.ROOT / file
            self.assertTrue(path.exists(), f'{file} does not exist')
            self.assertTrue(defines(path.read_text(), name), f'{file} does not define {name}')

    def test_twelve_questions_are_answered_in_one_step(self) -> None:
        [questions] = re.findall(r'^Twelve questions\n=+\n(.*?)^\S[^\n]*\n=+$',
                                 _PAGE.read_text(), re.MULTILINE | re.DOTALL)
        rows = re.findall(r'\n   \* - [A-Z][^?]+\?\n     - ([^\n]+)', questions)
        self.assertEqual(12, len([row for row in rows if _PLACE.fullmatch(row)]))

    def test_every_row_names_a_file(self) -> None:
        page = _PAGE.read_text()
        self.assertEqual(page.count('\n   * - '), len(_PLACE.findall(page)))


class DefinesTest(testtools.TestCase):

    def test_names_that_a_module_defines_are_found(self) -> None:
        source = 'A = 1\nB: int = 2\n\ndef f(): ...\n\nclass C:\n    def m(self): ...\n'
        for name in ('A', 'B', 'f', 'C', 'C.m'):
            self.assertTrue(defines(source, name), name)
        for name in ('m', 'C.n', 'D.m', 'int', 'f.m'):
            self.assertFalse(defines(source, name), name)
