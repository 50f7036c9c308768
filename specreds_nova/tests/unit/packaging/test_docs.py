# SPDX-License-Identifier: Apache-2.0
"""The documentation: its blocks can be typed, and it covers all states, options and programs."""

from collections.abc import Iterator
import configparser
import json
import pathlib
import re
import shlex
from xml.etree import ElementTree

import prometheus_client
import testtools

from specreds_cinder import conf as cinder_conf
from specreds_cinder.superposition.truth import states
from specreds_nova import opts as nova_opts
from specreds_nova.engine import metrics
from specreds_nova.engine import model
from specreds_nova.engine import opts as engine_opts
from specreds_nova.engine.clients import conf as clients_conf
from specreds_nova.engine.suspicion import evidence
from specreds_nova.status import main as status
from specreds_nova.tests.unit.packaging import base
from specreds_nova.tests.unit.packaging import commands
from tempest_plugin import config as tempest_conf

_DOC = base.ROOT / 'doc/source'
_BLOCK = re.compile(
    r'^(?P<indent> *)\.\. code-block:: (?P<language>\S+)\n(?P<options>(?:(?P=indent) +:.*\n)*)\n'
    r'(?P<body>(?:(?:(?P=indent) +.*)?\n)+)', re.M)
# The end of the part of a line that belongs to one command.
_SHELL = re.compile(r'\s(?:\||&&|\|\||;|>|<|#)(?:\s|$)')


def blocks(*languages: str) -> Iterator[tuple[pathlib.Path, str]]:
    """Return all blocks in some languages, without their indentation."""
    for page in sorted(_DOC.rglob('*.rst')):
        for block in _BLOCK.finditer(page.read_text()):
            if block['language'] in languages:
                lines = block['body'].rstrip().splitlines()
                least = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
                yield page, '\n'.join(line[least:] for line in lines)


class BlocksTest(testtools.TestCase):

    def test_documentation_has_blocks(self) -> None:
        self.assertGreater(len(list(blocks('console', 'shell', 'bash'))), 10)
        self.assertGreater(len(list(blocks('ini'))), 2)

    def test_commands_and_their_options_exist(self) -> None:
        usage = (base.ROOT / 'run').read_text()
        checked = 0
        typed = [(page, line) for page, text in blocks('console', 'shell')
                 for line in _typed(text)]
        typed += [(page, line) for page, text in blocks('bash') for line in _script(text)]
        for page, line in typed:
            words = shlex.split(line)
            while words and '=' in words[0]:
                del words[0]
            if words[:1] == ['./run'] and len(words) > 1:
                self.assertRegex(usage, rf'(?m)^  {words[1]}\b|\b{words[1]} \|',
                                 f'{page}: {line}')
                checked += 1
            if not commands.ours(words):
                continue
            checked += 1
            try:
                text = commands.help_of(words)
            except KeyError:
                self.fail(f'{page}: there is no such command: {line}')
            for option in re.findall(r'--[a-z][a-z-]*', line):
                self.assertIn(option, text, f'{page}: {line}')
        self.assertGreater(checked, 20)

    def test_configuration_options_exist(self) -> None:
        known: dict[str, set[str]] = {}
        for group, options in [*cinder_conf.list_opts(), *nova_opts.list_opts(),
                               *engine_opts.list_opts()]:
            known.setdefault(str(group), set()).update(option.dest for option in options)
        known['service_auth'] |= {option.dest for option in clients_conf.list_opts()}
        # The options of tempest.conf.
        known['specreds'] |= {option.dest for option in tempest_conf.OPTIONS}
        for page, text in blocks('ini'):
            # [DEFAULT] needs the same checks as any other section.
            parser = configparser.ConfigParser(
                strict=False, interpolation=None, default_section='',
                inline_comment_prefixes='#', allow_no_value=True)
            parser.read_string(text)
            for section in parser.sections():
                for name, value in parser[section].items():
                    if section in known and name != '…':
                        self.assertIn(name, known[section], f'{page}: [{section}]')
                    if value and value.startswith(('specreds_cinder.', 'specreds_nova.')):
                        # Read, not imported: Nova and Cinder cannot be imported into one process.
                        module, _, attribute = value.rpartition('.')
                        place = base.ROOT.joinpath(*module.split('.'))
                        sources = ([*place.glob('*.py')] if place.is_dir()
                                   else [place.with_suffix('.py')])
                        self.assertTrue(any(f'\nclass {attribute}(' in source.read_text()
                                            for source in sources), f'{page}: {value}')

    def test_json_is_valid(self) -> None:
        values = [json.loads(text) for _, text in blocks('json')]
        self.assertNotEqual([], values)
        self.assertNotIn(None, values)

    def test_every_language_is_checked(self) -> None:
        languages = {match['language'] for page in _DOC.rglob('*.rst')
                     for match in _BLOCK.finditer(page.read_text())}
        self.assertIn('console', languages)
        # Plain text has nothing to check.
        self.assertEqual(set(), languages - {'bash', 'console', 'ini', 'json', 'shell', 'text'})

    def test_yaml_is_not_indented_by_tabs(self) -> None:
        for page in _DOC.rglob('*.rst'):
            self.assertNotIn('\t', page.read_text(), str(page))


class HandbookTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.page = (_DOC / 'handbook.rst').read_text()

    def assert_documented(self, *words: str) -> None:
        self.assertEqual([], [word for word in words if f'``{word}``' not in self.page])

    def test_states_of_hosts_and_recoveries_are_documented(self) -> None:
        self.assert_documented(*model.HOST_STATES, *model.STATES, *model.OUTCOMES)

    def test_states_of_superpositions_are_documented(self) -> None:
        self.assert_documented(
            states.CREATING, states.SUPERPOSED, states.COLLAPSING, states.PROMOTED,
            states.MERGING, states.MERGED, states.ABORTING, states.ABORTED, states.DIRTY,
            states.LATE_DIRTY)

    def test_kinds_of_evidence_are_documented(self) -> None:
        self.assert_documented(evidence.SILENCE, evidence.LIBVIRT, evidence.STORAGE, evidence.NOVA,
                               evidence.OPERATOR, evidence.CRASH, evidence.BOOT)

    def test_metrics_are_documented(self) -> None:
        registry = prometheus_client.CollectorRegistry()
        metrics.Metrics(registry)
        for family in registry.collect():
            self.assertIn(f'``{family.name}', self.page)

    def test_ways_to_combine_the_metrics_of_engines_are_documented(self) -> None:
        registry = prometheus_client.CollectorRegistry()
        shown = metrics.Metrics(registry)
        before = {family.name: family for family in registry.collect()}
        # What the engine reads from the database that all engines share, or from Nova.
        shown.hosts.set(dict.fromkeys(model.HOST_STATES, 7))
        shown.sentinels.set({None: 7})
        shown.voices.set({None: 7})
        shown.active.set(dict.fromkeys(model.STATES, 7))
        shown.backups.set(7)
        shown.modes.set({model.ACT: 7})
        shown.servers.set({'speculative': 7})
        shown.roomless.set(7)
        rows = re.split(r'(?m)^(?=``max``|``sum``|one by one|====)',
                        (_DOC / 'handbook.rst').read_text().partition('over engines')[2])[2:5]
        for family in registry.collect():
            named = [number for number, row in enumerate(rows) if f'``{family.name}' in row]
            self.assertEqual(1, len(named), family.name)
            self.assertEqual(family != before[family.name], named == [0], family.name)

    def test_upgrade_checks_are_documented(self) -> None:
        page = (_DOC / 'upgrades.rst').read_text()
        for name, _ in status.Checks._upgrade_checks:
            self.assertRegex(page, rf'(?m)^{re.escape(name)} ')


class PagesTest(testtools.TestCase):

    def test_picture_is_svg(self) -> None:
        root = ElementTree.parse(_DOC / 'images/race.svg').getroot()
        self.assertEqual('{http://www.w3.org/2000/svg}svg', root.tag)

    def test_programs_are_documented(self) -> None:
        page = (_DOC / 'cli/programs.rst').read_text()
        self.assertEqual([], [name for name in base.scripts() if f'``{name}``' not in page])

    def test_files_that_pages_name_exist(self) -> None:
        for page in _DOC.rglob('*.rst'):
            for name in re.findall(r'``((?:etc|tools|releasenotes|bench)/[\w./-]+)``',
                                   page.read_text()):
                if not name.endswith('.sample') and '/build/' not in name:
                    self.assertTrue((base.ROOT / name).exists(), f'{page}: {name}')

    def test_units_that_the_install_page_installs_find_their_programs(self) -> None:
        page = (_DOC / 'install.rst').read_text()
        for unit in (base.ROOT / 'etc/systemd').glob('*.service'):
            self.assertIn(unit.name, page)
            # The programs of a virtual environment are elsewhere.
            if '=/usr/bin/specreds' in unit.read_text():
                self.assertRegex(page, rf'sed s,/usr/bin/specreds,.* {unit.name}')


def _typed(text: str) -> Iterator[str]:
    """Return the commands of a block: all lines, or those after a prompt if there are prompts."""
    joined = re.sub(r'\\\n\s*', ' ', text)
    lines = joined.splitlines()
    prompted = [line[2:] for line in lines if line.startswith(('$ ', '# '))]
    yield from _commands(prompted or lines)


def _script(text: str) -> Iterator[str]:
    """Return the commands of a script, which has comments and no prompts."""
    joined = re.sub(r'\\\n\s*', ' ', text)
    # A command within a command counts too.
    yield from _commands(re.sub(r'"?\$\(([^()]*)\)"?', r'\n\1\n', joined).splitlines())


def _commands(lines: list[str]) -> Iterator[str]:
    for line in lines:
        command = _SHELL.split(f'{line} ')[0].strip()
        if command and not command.startswith('#'):
            yield command
