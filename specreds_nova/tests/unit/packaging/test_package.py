# SPDX-License-Identifier: Apache-2.0
"""Whatever setup.cfg names exists, and whatever is packaged is in setup.cfg."""

import importlib
import itertools
import re
import subprocess
import sys

from packaging import requirements as packaging
from packaging import utils
import testtools

from specreds_nova.tests.unit.packaging import base

_REQUIREMENTS = ('requirements.txt', 'cloud-requirements.txt', 'test-requirements.txt',
                 'tools/requirements.txt', 'doc/requirements.txt')
# Packages that run from the checkout only.
_NOT_INSTALLED = {'bench', 'cloud', 'devstack', 'testing'}
# A distribution of its own, by its pyproject.toml.
_APART = {'tempest_plugin'}
# An option by the process's configuration, not by another module's name for it.
_READ_OPTION = re.compile(r'(?:\bcfg\.|(?<![.\w]))CONF\.specreds\b')
# Prints the help of a program where neither Nova nor Cinder is installed.
_ALONE = """
import importlib, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        # Nova requires the last one.
        if name.partition('.')[0] in ('nova', 'cinder', 'cotyledon'):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
sys.argv = ['program', '--help']
sys.exit(importlib.import_module('{}').{}())
"""


class PackageTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.setup = base.read_ini('setup.cfg')

    def test_entry_points_exist(self) -> None:
        for group, text in self.setup['entry_points'].items():
            if group == 'masakari.task_flow.tasks':
                # Masakari's options and Nova's exclude each other: see TaskTest of test_hand_over.
                continue
            for line in base.lines(text):
                name, _, target = (part.strip() for part in line.partition('='))
                module, _, attribute = target.partition(':')
                entry: object = importlib.import_module(module)
                for part in filter(None, attribute.split('.')):
                    self.assertTrue(hasattr(entry, part), f'{group}: {name}: {target}')
                    entry = getattr(entry, part)

    def test_programs_beside_nova_and_cinder_start_without_them(self) -> None:
        for program in ('engine-manage', 'preflight', 'sentinel', 'status', 'super'):
            target = next(line.partition('=')[2].strip() for line in base.lines(
                self.setup['entry_points']['console_scripts'])
                if line.startswith(f'specreds-{program} '))
            module, _, function = target.partition(':')
            ran = subprocess.run(
                [sys.executable, '-W', 'ignore', '-c', _ALONE.format(module, function)],
                cwd=base.ROOT, capture_output=True, text=True, check=False)
            self.assertEqual(0, ran.returncode, f'{program}: {ran.stderr}')
            self.assertIn('usage:', ran.stdout, program)

    def test_all_packages_are_named(self) -> None:
        there = {path.parent.name for path in base.ROOT.glob('*/__init__.py')}
        self.assertEqual(there - _NOT_INSTALLED - _APART,
                         set(base.lines(self.setup['files']['packages'])))

    def test_every_module_is_in_a_package(self) -> None:
        for package in base.lines(self.setup['files']['packages']):
            for module in (base.ROOT / package).rglob('*.py'):
                self.assertTrue((module.parent / '__init__.py').exists(), str(module))

    def test_module_registers_the_options_that_it_reads(self) -> None:
        # Otherwise it works only where another module is imported, too.
        for package in ('specreds_cinder', 'specreds_nova'):
            for module in (base.ROOT / package).rglob('*.py'):
                text = module.read_text()
                if 'tests' not in module.parts and _READ_OPTION.search(text):
                    self.assertTrue('conf.register(CONF)' in text, module)

    def test_data_files_exist(self) -> None:
        for line in base.lines(self.setup['files']['data_files']):
            pattern = line.partition('=')[2].strip()
            self.assertNotEqual([], list(base.ROOT.glob(pattern)), line)

    def test_tox_has_each_supported_version_of_python(self) -> None:
        versions = re.findall(r'Python :: (3\.\d+)', self.setup['metadata']['classifier'])
        self.assertEqual(f'>={versions[0]}', self.setup['metadata']['python_requires'])
        tox = base.read_ini('tox.ini')
        for version in versions:
            self.assertIn(f'testenv:py{version.replace(".", "")}', tox)

    def test_constraints_meet_requirements(self) -> None:
        pinned = {utils.canonicalize_name(name): version for name, version in (
            line.split('==') for line in _entries('constraints.txt'))}
        for file in _REQUIREMENTS:
            for line in _required(file):
                wanted = packaging.Requirement(line)
                name = utils.canonicalize_name(wanted.name)
                self.assertIn(name, pinned, f'{file}: {line}')
                self.assertTrue(wanted.specifier.contains(pinned[name]), f'{file}: {line}')

    def test_older_releases_meet_requirements(self) -> None:
        """No requirement is newer than what the environments of older releases install."""
        required = {wanted.name: wanted.specifier for wanted in
                    map(packaging.Requirement, _required('requirements.txt'))}
        for file in (base.ROOT / 'tools/releases').glob('*.txt'):
            for line in _entries(f'tools/releases/{file.name}'):
                wanted = packaging.Requirement(line)
                least = next(each.version for each in wanted.specifier if each.operator == '>=')
                if wanted.name in required:
                    self.assertTrue(required[wanted.name].contains(least), f'{file}: {line}')

    def test_what_hosts_have_anyway_is_not_required(self) -> None:
        extras = {extra: {packaging.Requirement(line).name for line in required}
                  for extra, required in _extras().items()}
        self.assertEqual({'redfish': {'sushy'}}, extras)
        plain = {packaging.Requirement(line).name for line in _entries('requirements.txt')}
        self.assertEqual(set(), plain & {'cinder', 'nova'})

    def test_commands_of_openstack_name_values_as_its_others_do(self) -> None:
        names = [name for package in ('specreds_cinder', 'specreds_nova')
                 for module in (base.ROOT / package / 'osc').glob('*.py')
                 for name in re.findall(r"metavar='([^']*)'", module.read_text())]
        self.assertIn('<volume>', names)
        self.assertEqual([], [name for name in names
                              if not re.fullmatch('<[a-z]+(-[a-z]+)*>', name)])

    def test_libnbd_is_for_tests_only(self) -> None:
        for package in base.lines(self.setup['files']['packages']):
            for module in (base.ROOT / package).rglob('*.py'):
                if 'tests' not in module.parts:
                    self.assertNotRegex(module.read_text(), r'(?m)^\s*import nbd\b', str(module))
        for line in _entries('bindep.txt'):
            if 'libnbd' in line:
                self.assertIn(' test]', line)
        for file in (base.ROOT / 'devstack/files').rglob('specreds'):
            self.assertNotIn('libnbd', file.read_text(), str(file))

    def test_fresh_machines_have_promtool(self) -> None:
        self.assertIn('prometheus [platform:dpkg test]', _entries('bindep.txt'))
        packages = re.findall(r'(?ms)^packages=\((.*?)^\)', (base.ROOT / 'run').read_text())[0]
        self.assertIn('prometheus', packages.split())

    def test_files_that_tox_names_exist(self) -> None:
        text = (base.ROOT / 'tox.ini').read_text()
        named = set(itertools.chain(
            re.findall(r'\{toxinidir\}/([\w./-]+)', text),
            re.findall(r'--config-file (\S+)', text), re.findall(r'-b \w+ (\S+)', text)))
        self.assertNotEqual(set(), named)
        for name in named:
            self.assertTrue((base.ROOT / name).exists(), name)


def _extras() -> dict[str, list[str]]:
    return {extra: [line.split('#')[0].strip() for line in base.lines(text)]
            for extra, text in base.read_ini('setup.cfg')['extras'].items()}


def _required(file: str) -> list[str]:
    """Return the requirements of a file, with the extras if it is the package's own."""
    extras = _extras().values() if file == 'requirements.txt' else ()
    return [*_entries(file), *itertools.chain.from_iterable(extras)]


def _entries(file: str) -> list[str]:
    lines = (line.split('#')[0].strip() for line in (base.ROOT / file).read_text().splitlines())
    return [line for line in lines if line]
