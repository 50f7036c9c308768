# SPDX-License-Identifier: Apache-2.0
"""The rules of OpenStack's job requirements-check, as far as they need no network."""

import collections
import re

from packaging import requirements as packaging
from packaging import utils
import testtools

from specreds_nova.tests.unit.packaging import base

# What the job looks at, beside the extras in setup.cfg.
_FILES = ('requirements.txt', 'test-requirements.txt', 'doc/requirements.txt')
_GLOBAL = 'specreds_nova/tests/unit/packaging/global-requirements.txt'
# In OpenStack's list of what projects require in versions of their own.
_DENIED = {'bashate', 'mypy', 'types-jsonschema'}
# The job fails as long as openstack/requirements does not list these: see .zuul.yaml.
_PROPOSED = {'google-re2', 'numpy', 'pycurl', 'qemu-qmp'}


class Entry:
    """One line, as the job compares lines: by its text, not by what the text means."""

    def __init__(self, line: str) -> None:
        text, _, self.licence = (part.strip() for part in line.partition('#'))
        # A marker is compared as it is written.
        requirement, _, self.marker = (part.strip() for part in text.partition(';'))
        parsed = packaging.Requirement(requirement)
        self.name = parsed.name
        self.key = utils.canonicalize_name(parsed.name)
        versions = [str(each) for each in parsed.specifier]
        self.excluded = {each for each in versions if each.startswith(('!=', '<'))}
        self.bounded = any('>' in each for each in versions)


def _entries(file: str) -> list[Entry]:
    return [Entry(line) for line in base.lines((base.ROOT / file).read_text())
            if not line.startswith('#')]


class RequirementsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.groups = {file: _entries(file) for file in _FILES}
        for extra, text in base.read_ini('setup.cfg')['extras'].items():
            self.groups[extra] = [Entry(line) for line in base.lines(text)]

    def test_each_requirement_is_as_in_the_global_ones(self) -> None:
        listed = {entry.key: entry for entry in _entries(_GLOBAL)}
        absent = set()
        for group, entries in self.groups.items():
            for entry in entries:
                if entry.key in _DENIED:
                    continue
                if entry.key not in listed:
                    absent.add(entry.key)
                    continue
                there = listed[entry.key]
                self.assertEqual((there.name, there.marker), (entry.name, entry.marker), group)
                self.assertLessEqual(entry.excluded, there.excluded, group)
        self.assertEqual(_PROPOSED, absent)

    def test_each_requirement_has_a_lower_bound_and_a_licence(self) -> None:
        for group, entries in self.groups.items():
            for entry in entries:
                self.assertTrue(entry.bounded, f'{group}: {entry.name}')
                self.assertNotEqual('', entry.licence, f'{group}: {entry.name}')

    def test_nothing_is_required_twice(self) -> None:
        for group, entries in self.groups.items():
            counts = collections.Counter(entry.key for entry in entries)
            self.assertEqual([], [name for name, count in counts.items() if count > 1], group)

    def test_nothing_is_listed_that_is_not_required(self) -> None:
        required = {entry.key for entries in self.groups.values() for entry in entries}
        self.assertEqual(set(), {entry.key for entry in _entries(_GLOBAL)} - required)

    def test_project_is_built_by_pbr(self) -> None:
        self.assertRegex((base.ROOT / 'pyproject.toml').read_text(),
                         re.compile(r'^build-backend = "pbr\.build"$', re.MULTILINE))
