# SPDX-License-Identifier: Apache-2.0
"""The plug-in is a distribution of its own, which Tempest's environment can have alone."""

import ast
import pathlib
import pkgutil
import subprocess
import sys
import tomllib
from typing import Any

from packaging import requirements
import testtools

from specreds_cinder.superposition.truth import states
import tempest_plugin
from tempest_plugin import config
from tempest_plugin import plugin
from tempest_plugin.common import base

_HERE = pathlib.Path(tempest_plugin.__file__).parent
# Modules of what the plug-in may need, by the name of the distribution.
_MODULES = {'fixtures': 'fixtures', 'oslo.config': 'oslo_config', 'tempest': 'tempest',
            'testtools': 'testtools'}
# Imports all modules of packages, and prints the modules that belong to the product.
_PROGRAM = """
import importlib, pkgutil, sys
for package in sys.argv[1:]:
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if module.name not in ('setup', 'tests'):
            importlib.import_module(f'{package}.{module.name}')
print(*sorted(name for name in sys.modules if name.split('.')[0].startswith('specreds')))
"""


def _read() -> dict[str, Any]:
    return tomllib.loads((_HERE / 'pyproject.toml').read_text())


class DistributionTest(testtools.TestCase):

    def test_nothing_of_the_product_is_imported(self) -> None:
        loaded = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', _PROGRAM, *_read()['tool']['setuptools'][
                'packages']], check=True, capture_output=True, text=True, cwd=_HERE.parent)
        # specreds.pth of an editable installation loads the alias for Nova's drivers.
        # Tempest logs on the lines before.
        named = loaded.stdout.splitlines()[-1].split()
        self.assertEqual({'specreds_nova', 'specreds_nova.alias'},
                         {'specreds_nova', 'specreds_nova.alias', *named})

    def test_states_are_those_of_the_product(self) -> None:
        self.assertEqual(states.DECIDED, set(base.DECIDED))

    def test_all_that_is_imported_is_required(self) -> None:
        required = {requirements.Requirement(line).name
                    for line in _read()['project']['dependencies']}
        self.assertLessEqual(required, set(_MODULES))
        allowed = {_MODULES[name] for name in required} | {'tempest_plugin'}
        for path in _HERE.rglob('*.py'):
            if path.name == 'setup.py' or 'tests' in path.relative_to(_HERE).parts:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                names = ([alias.name for alias in node.names] if isinstance(node, ast.Import)
                         else [node.module or ''] if isinstance(node, ast.ImportFrom) else [])
                foreign = {name.split('.')[0] for name in names} - sys.stdlib_module_names
                self.assertEqual(set(), foreign - allowed, str(path))

    def test_entry_points_exist(self) -> None:
        points = _read()['project']['entry-points']
        self.assertIs(plugin.SpecredsPlugin, pkgutil.resolve_name(
            points['tempest.test_plugins']['specreds']))
        self.assertIs(config.list_opts, pkgutil.resolve_name(
            points['oslo.config.opts']['tempest_plugin']))

    def test_all_packages_without_the_unit_tests_are_named(self) -> None:
        there = {'.'.join(path.parent.relative_to(_HERE.parent).parts)
                 for path in _HERE.rglob('__init__.py')}
        self.assertEqual(there - {'tempest_plugin.tests'},
                         set(_read()['tool']['setuptools']['packages']))
