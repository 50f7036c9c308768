# SPDX-License-Identifier: Apache-2.0
"""Suites of tests, as the file ``suite.toml`` beside the tests declares each."""

from collections.abc import Iterable, Mapping
import dataclasses
import os
import pathlib
import re
import tomllib
from typing import Any

FILE = 'suite.toml'

# The tiers, in order: each runs what those before it run.
CHECK = 'check'
TEST = 'test'
ALL = 'all'
TIERS = (CHECK, TEST, ALL)

# What a suite needs.
PROCESSORS = 'processors'
CEPH = 'ceph'
CLOUD = 'cloud'
HOSTS = 'hosts'
NEEDS = (PROCESSORS, CEPH, CLOUD, HOSTS)

_TOPS = ('bench', 'cloud', 'devstack', 'specreds_cinder', 'specreds_nova', 'tempest_plugin',
         'testing')


class Invalid(Exception):
    """A declaration is wrong; the message names the file."""


@dataclasses.dataclass(frozen=True)
class Suite:
    """One suite of tests.

    :param path: directory of the tests, from the top of the checkout
    :param needs: what the tests run on: one of NEEDS
    :param tier: the first of TIERS that runs the suite
    :param tests: least number of tests that a run of the suite has to pass in a tier before ALL
    :param tests_of_all: the same in the tier ALL; the same number if it is 0
    :param later: what only the tier ALL runs: modules of the suite, their classes, or tests
    :param skips: names of tests that may be skipped: regular expressions
    :param options: options of ``./run cloud up`` for the suite's cloud
    :param engines: number of engines on that cloud
    :param processes: number of processes, each with a Ceph of its own if the suite needs one
    :param first: environment variables of the tests in a tier before ALL
    :param release: release of OpenStack whose packages the tests use; empty for the newest one
    """

    name: str
    path: str
    needs: str
    tier: str
    tests: int
    tests_of_all: int = 0
    later: tuple[str, ...] = ()
    skips: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    engines: int = 0
    processes: int = 1
    first: Mapping[str, str] = dataclasses.field(default_factory=dict)
    release: str = ''

    def excluded(self, tier: str) -> str:
        """Return the regular expression of the tests that a tier leaves out; empty for none."""
        if tier == ALL or not self.later:
            return ''
        # ddt adds a number to the name of a test.
        return rf'\.({"|".join(map(re.escape, self.later))})(\.|_\d|$)'

    def least(self, tier: str) -> int:
        """Return the least number of tests that a run in a tier has to pass."""
        return self.tests_of_all or self.tests if tier == ALL else self.tests

    def variables(self, tier: str) -> Mapping[str, str]:
        """Return the environment variables of the tests in a tier, except the user's own."""
        return {} if tier == ALL else {
            name: value for name, value in self.first.items() if name not in os.environ}


def load(top: pathlib.Path) -> list[Suite]:
    """Return all suites of a checkout, suites of early tiers first.

    :raises Invalid: a declaration is wrong
    """
    suites: list[Suite] = []
    for file in sorted(file for name in _TOPS for file in (top / name).rglob(FILE)):
        suites += _declared(file, str(file.parent.relative_to(top)))
    for file in (file for name in _TOPS for file in (top / name).rglob('tests/**/*test*.py')):
        if file.name.endswith('_test.py'):
            raise Invalid(f'{file} would not run: the name of a module of tests begins with test_')
        if not file.name.startswith('test_'):
            continue
        if not any(file.is_relative_to(top / suite.path) for suite in suites):
            raise Invalid(f'{file} is in no suite: {FILE} is missing')
        for package in file.relative_to(top).parents[:-1]:
            if not (top / package / '__init__.py').exists():
                raise Invalid(f'{file} would not run: {package}/__init__.py is missing')
    names = [suite.name for suite in suites]
    if twice := {name for name in names if names.count(name) > 1}:
        raise Invalid(f'several suites have the name {", ".join(sorted(twice))}')
    return sorted(suites, key=lambda suite: (TIERS.index(suite.tier), NEEDS.index(suite.needs),
                                             suite.options, suite.name))


def of_tier(suites: Iterable[Suite], tier: str) -> list[Suite]:
    """Return the suites that a tier runs."""
    return [suite for suite in suites if TIERS.index(suite.tier) <= TIERS.index(tier)]


def _declared(file: pathlib.Path, path: str) -> list[Suite]:
    """Return the suite of a file, and the same tests with older releases of OpenStack."""
    try:
        values: dict[str, Any] = tomllib.loads(file.read_text())
        releases = values.pop('releases', {})
        for name in ('later', 'skips', 'options'):
            # Each character of a text would be taken for an entry.
            if not isinstance(values.get(name, []), list):
                raise TypeError(f'{name} is no list')
            values[name] = tuple(values.get(name, ()))
        suite = Suite(path=path, **values)
        if suite.tier not in TIERS or suite.needs not in NEEDS or suite.tests < 1:
            raise ValueError('tier, needs or tests')
        for skip in suite.skips:
            re.compile(skip)
        return [suite, *(dataclasses.replace(
            suite, name=f'{suite.name}-{release}', tier=ALL, release=release, tests=tests,
            tests_of_all=0)
            for release, tests in releases.items())]
    except (ValueError, TypeError, re.error) as exc:
        raise Invalid(f'{file}: {exc}') from exc
