# SPDX-License-Identifier: Apache-2.0
"""The language of the sources and pages follows HACKING.rst."""

from collections.abc import Iterator
import pathlib

import testtools

from specreds_nova.tests.unit.packaging import base
from specreds_nova.tests.unit.packaging import language

# Packages and modules that follow HACKING.rst. The list only grows.
REWRITTEN = (
    'bench/falsepositives',
    'bench/paper',
    'cloud/demo',
    'specreds_cinder/api',
    'specreds_cinder/cli',
    'specreds_cinder/conf.py',
    'specreds_cinder/driver.py',
    'specreds_cinder/endpoint.py',
    'specreds_cinder/exception.py',
    'specreds_cinder/hints.py',
    'specreds_cinder/manager.py',
    'specreds_cinder/notifications.py',
    'specreds_cinder/opts.py',
    'specreds_cinder/osc',
    'specreds_cinder/policies.py',
    'specreds_cinder/rpcapi.py',
    'specreds_cinder/superposition/backup.py',
    'specreds_cinder/superposition/ledger.py',
    'specreds_cinder/superposition/roles.py',
    'specreds_cinder/tests/unit/test_walkthroughs.py',
    'specreds_cinder/tests/walkthroughs.py',
    'specreds_nova/cli',
    'specreds_nova/osc',
    'specreds_nova/status/cinder.py',
    'specreds_nova/status/engine.py',
    'specreds_nova/status/files.py',
    'specreds_nova/status/findings.py',
    'specreds_nova/status/main.py',
    'specreds_nova/status/options.py',
    'specreds_nova/tests/unit/packaging/test_map.py',
    'specreds_nova/tests/unit/packaging/test_pictures.py',
    'specreds_nova/tests/unit/packaging/test_readme.py',
    'specreds_nova/virt/disks/ceph_conf.py',
    'specreds_nova/virt/signatures.py',
    'tempest_plugin',
)
# Pages that follow HACKING.rst. The list only grows.
PAGES = (
    'HACKING.rst',
    'doc/source/api/index.rst',
    'doc/source/architecture.rst',
    'doc/source/benchmarks.rst',
    'doc/source/cinder.rst',
    'doc/source/cli/index.rst',
    'doc/source/cli/programs.rst',
    'doc/source/configuration/index.rst',
    'doc/source/configuration/policies.rst',
    'doc/source/contributor/index.rst',
    'doc/source/contributor/map.rst',
    'doc/source/devstack.rst',
    'doc/source/engine-api/index.rst',
    'doc/source/engine.rst',
    'doc/source/handbook.rst',
    'doc/source/index.rst',
    'doc/source/models.rst',
    'doc/source/notifications.rst',
    'doc/source/nova.rst',
    'doc/source/operator.rst',
    'doc/source/platforms.rst',
    'doc/source/protocol.rst',
    'doc/source/quickstart.rst',
    'doc/source/releasenotes.rst',
    'doc/source/services.rst',
    'doc/source/tempest.rst',
    'doc/source/timing.rst',
    'doc/source/upgrades.rst',
    'doc/source/walkthroughs.rst',
)


class RewrittenTest(testtools.TestCase):

    def test_sources_have_no_faults(self) -> None:
        for name in REWRITTEN:
            for path in _sources(name):
                faults = list(language.faults_of_source(path.read_text()))
                self.assertEqual([], faults, str(path))

    def test_pages_have_no_faults(self) -> None:
        for name in PAGES:
            faults = list(language.faults_of_page((base.ROOT / name).read_text()))
            self.assertEqual([], faults, name)

    def test_lists_are_sorted_and_without_repetition(self) -> None:
        self.assertEqual(sorted(set(REWRITTEN)), list(REWRITTEN))
        self.assertEqual(sorted(set(PAGES)), list(PAGES))


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
        [fault] = self.faults('one = 1\nLOG.info("He hears it")\n')
        self.assertEqual("2: 'He' is for people", fault)
        [fault] = self.faults('one = 1  # what is told him\n')
        self.assertEqual("1: 'him' is for people", fault)

    def test_exception_not_named_exc_is_found(self) -> None:
        [fault] = self.faults('try:\n    pass\nexcept KeyError as error:\n    pass\n')
        self.assertIn('error, not exc', fault)

    def test_fault_of_a_page_is_found(self) -> None:
        long = 'word ' * 21
        self.assertEqual(["2: 'his' is for people", '3: 105 characters'], list(
            language.faults_of_page(f'``he`` and `him`\nhis\n{long}\n')))
        # What cannot be broken may be longer.
        self.assertEqual([], list(language.faults_of_page('   ' + 'x' * 120)))
        code = f'.. code-block:: ini\n\n   {long}\n\n   {long}\n'
        self.assertEqual([], list(language.faults_of_page(code)))
        self.assertEqual(['6: 105 characters'], list(language.faults_of_page(f'{code}{long}')))


def _sources(name: str) -> Iterator[pathlib.Path]:
    place = base.ROOT / name
    sources = sorted(place.rglob('*.py')) if place.is_dir() else [place]
    if not sources:
        raise AssertionError(f'{name} has no modules')
    yield from sources
