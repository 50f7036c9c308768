# SPDX-License-Identifier: Apache-2.0
"""The module name under which Nova loads the driver."""

import importlib
import pathlib
import subprocess
import sys

import testtools

from specreds_nova import alias
from specreds_nova import opts

_LOADED = """
import sys
before = set(sys.modules)
sys.path.insert(0, sys.argv[1])
import specreds_nova.alias
print(*sorted(set(sys.modules) - before))
"""


class AliasTest(testtools.TestCase):
    """``compute_driver = specreds.SpeculativeLibvirtDriver``."""

    def test_alias_is_the_same_class(self) -> None:
        aliased = importlib.import_module('nova.virt.specreds')
        real = importlib.import_module('specreds_nova.host.driver')
        self.assertIs(real.SpeculativeLibvirtDriver, aliased.SpeculativeLibvirtDriver)
        self.assertEqual('specreds_nova.host.driver', real.SpeculativeLibvirtDriver.__module__)

    def test_other_names_are_not_found(self) -> None:
        self.assertRaises(ModuleNotFoundError, importlib.import_module, 'nova.virt.specreds2')

    def test_alias_is_installed_once(self) -> None:
        before = list(sys.meta_path)
        alias.install()
        self.assertEqual(before, sys.meta_path)

    def test_pth_file_imports_the_alias(self) -> None:
        root = pathlib.Path(__file__).parents[3]
        self.assertEqual(f'import {alias.__name__}\n', (root / 'specreds.pth').read_text())

    def test_start_of_python_imports_nothing_else(self) -> None:
        root = pathlib.Path(__file__).parents[3]
        loaded = subprocess.run(
            [sys.executable, '-I', '-S', '-c', _LOADED, str(root)],
            check=True, capture_output=True, text=True).stdout.split()
        self.assertEqual(['specreds_nova', 'specreds_nova.alias'], loaded)

    def test_each_option_has_a_help_sentence(self) -> None:
        [(group, options)] = opts.list_opts()
        self.assertEqual('specreds', group)
        for option in options:
            self.assertTrue(option.help and option.help.endswith('.'), option.name)
