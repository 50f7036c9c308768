# SPDX-License-Identifier: Apache-2.0
"""The language of the sources and pages follows HACKING.rst."""

from collections.abc import Iterator
import pathlib

import testtools

from specreds_nova.tests.unit.packaging import base
from specreds_nova.tests.unit.packaging import language

PACKAGES = ('bench', 'cloud', 'devstack', 'specreds_cinder', 'specreds_nova', 'tempest_plugin',
            'testing')
# Modules with faults on purpose.
_SAMPLES = ('specreds_nova/tests/unit/packaging/language.py',
            'specreds_nova/tests/unit/packaging/test_language.py')


class TreeTest(testtools.TestCase):

    def test_sources_have_no_faults(self) -> None:
        for path in _sources():
            faults = list(language.faults_of_source(path.read_text()))
            self.assertEqual([], faults, str(path))

    def test_pages_have_no_faults(self) -> None:
        for path in [base.ROOT / 'HACKING.rst', *(base.ROOT / 'doc' / 'source').rglob('*.rst')]:
            faults = list(language.faults_of_page(path.read_text()))
            self.assertEqual([], faults, str(path))


class FaultsTest(testtools.TestCase):
    """Each check finds its fault."""

    def faults(self, source: str) -> list[str]:
        return list(language.faults_of_source(source))

    def test_good_source_has_none(self) -> None:
        self.assertEqual([], self.faults(
            '"""The host of a server."""\n'
            'def host() -> str:\n'
            '    """Return its name.\n\n    :raises KeyError: there is none\n    """\n'
            '    # The heel of the shell, this and help.\n'
            '    try:\n        pass\n    except KeyError as exc:\n        raise exc\n'))

    def test_bad_first_word_of_a_docstring_is_found(self) -> None:
        for word in ('Give', 'Gives', 'Tell', 'Tells', 'Who', 'Whoever'):
            [fault] = self.faults(f'def one():\n    """{word} something."""\n')
            self.assertIn(f'2: the docstring begins with {word!r}', fault)
            [_] = self.faults(f'"""{word} something."""\n')
            [_] = self.faults(f'class One:\n    """{word} something."""\n')

    def test_docstring_without_a_period_is_found(self) -> None:
        [fault] = self.faults('def one():\n    """Return something"""\n')
        self.assertIn('period', fault)

    def test_pronoun_of_a_person_is_found(self) -> None:
        [fault] = self.faults('size = 1\nLOG.info("He hears it")\n')
        self.assertEqual("2: 'He' is for people", fault)
        [fault] = self.faults('size = 1  # what is told him\n')
        self.assertEqual("1: 'him' is for people", fault)

    def test_exception_not_named_exc_is_found(self) -> None:
        [fault] = self.faults('try:\n    pass\nexcept KeyError as error:\n    pass\n')
        self.assertIn('error, not exc', fault)

    def test_vague_name_is_found(self) -> None:
        for source in ('found = 1\n', 'def size(found):\n    pass\n',
                       'sizes = [1 for found in ()]\n', 'size = lambda found: 1\n'):
            self.assertEqual(['1: found does not say what it holds'], self.faults(source))

    def test_fault_of_a_page_is_found(self) -> None:
        long = 'word ' * 21
        self.assertEqual(["2: 'his' is for people", '3: 105 characters'], list(
            language.faults_of_page(f'``he`` and `him`\nhis\n{long}\n')))
        # What cannot be broken may be longer.
        self.assertEqual([], list(language.faults_of_page('   ' + 'x' * 120)))
        code = f'.. code-block:: ini\n\n   {long}\n\n   {long}\n'
        self.assertEqual([], list(language.faults_of_page(code)))
        self.assertEqual(['6: 105 characters'], list(language.faults_of_page(f'{code}{long}')))


def _sources() -> Iterator[pathlib.Path]:
    samples = {base.ROOT / name for name in _SAMPLES}
    for package in PACKAGES:
        sources = set((base.ROOT / package).rglob('*.py')) - samples
        if not sources:
            raise AssertionError(f'{package} has no modules')
        yield from sorted(sources)
    yield base.ROOT / 'setup.py'
