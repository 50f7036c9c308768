# SPDX-License-Identifier: Apache-2.0
"""Which tests a user means, without an import of any: that would take seconds a suite."""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import functools
import pathlib
import re

from testing.suites import declared


class Invalid(Exception):
    """A word means nothing, or a module cannot be read; the message names it."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """Tests of one suite.

    :param regex: matches the names of the tests; empty for all tests of the suite
    :param modules: names of the modules that have such tests; empty for all modules
    """

    suite: declared.Suite
    regex: str = ''
    modules: tuple[str, ...] = ()


def find(top: pathlib.Path, suites: Iterable[declared.Suite],
         words: Sequence[str]) -> list[Choice]:
    """Return the tests that the words mean.

    A word is the name of a suite, a file or directory of tests, or a regular expression that
    matches the names of tests.

    :param top: directory of the checkout
    :raises Invalid: a word is no regular expression, or a module cannot be read
    """
    everything = list(suites)
    names = {suite.name: suite for suite in everything}
    whole = [names[word] for word in words if word in names]
    regexes = [_regex(top, word) for word in words if word not in names]
    choices = [Choice(suite) for suite in whole]
    if regexes:
        regex = '|'.join(regexes)
        choices += _matching(top, [suite for suite in everything
                                   if suite not in whole and not suite.release], regex)
    return choices


def _regex(top: pathlib.Path, word: str) -> str:
    """Return the regular expression for a word that may be a path."""
    path = top / word
    if '/' in word and path.exists() and path.is_relative_to(top):
        module = re.escape('.'.join(path.relative_to(top).parts).removesuffix('.py'))
        return rf'^{module}\.'
    try:
        re.compile(word)
    except re.error as exc:
        raise Invalid(f'{word} is neither a path nor a regular expression: {exc}') from exc
    return word


def _matching(top: pathlib.Path, suites: Iterable[declared.Suite], regex: str) -> list[Choice]:
    """Return the tests that a regular expression matches."""
    wanted = re.compile(regex)
    listed = [(suite, _names(top, suite)) for suite in suites]

    def choices(matches: Callable[[str], object]) -> list[Choice]:
        made = [Choice(suite, regex, _modules(names, matches)) for suite, names in listed]
        return [choice for choice in made if choice.modules]

    # A decorator adds to the name of a method.
    return choices(wanted.search) or choices(
        lambda name: (method := name.rpartition('.')[2]) and method in regex)


def _modules(names: Mapping[str, list[str]], matches: Callable[[str], object]
             ) -> tuple[str, ...]:
    """Return the modules with a test that matches: all if a base class has one."""
    matching = [module for module, tests in names.items() if any(map(matches, tests))]
    tests = [module for module in names if _is_test(module)]
    return tuple(tests if not all(map(_is_test, matching)) else matching)


def _is_test(module: str) -> bool:
    return module.rpartition('.')[2].startswith('test_')


def _names(top: pathlib.Path, suite: declared.Suite) -> Mapping[str, list[str]]:
    """Return the names of tests by module, as far as the text of the modules shows them."""
    names = {}
    for file in sorted((top / suite.path).rglob('*.py')):
        module = '.'.join(file.relative_to(top).with_suffix('').parts)
        try:
            methods = [f'{module}.{name}' for name in _methods(file.read_text('utf-8'))]
        except (SyntaxError, UnicodeDecodeError) as exc:
            raise Invalid(f'{file}: {exc}') from exc
        # A module of tests matches by its own name, too.
        names[module] = [f'{module}.', *methods] if _is_test(module) else methods
    return names


@functools.cache
def _methods(source: str) -> tuple[str, ...]:
    """Return the names of the tests that a module defines, with their classes."""
    return tuple(f'{kind.name}.{each.name}'
                 for kind in ast.parse(source).body if isinstance(kind, ast.ClassDef)
                 for each in kind.body
                 if isinstance(each, ast.FunctionDef) and each.name.startswith('test'))
