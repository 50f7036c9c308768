# SPDX-License-Identifier: Apache-2.0
"""The formal models: their page names what they check, and TLC's verdicts are read correctly."""

from importlib import machinery
from importlib import util
import re
import sys
import types

import testtools

from specreds_nova.tests.unit.packaging import base

_MODELS = base.ROOT / 'doc/models'
_PAGE = base.ROOT / 'doc/source/models.rst'


def _tool() -> types.ModuleType:
    name = 'specreds_run_models'
    loader = machinery.SourceFileLoader(name, str(base.ROOT / 'tools/run-models'))
    spec = util.spec_from_loader(name, loader)
    assert spec is not None
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writes
    return module


class PageTest(testtools.TestCase):

    def test_page_names_every_model_and_property(self) -> None:
        page = _PAGE.read_text()
        models = sorted(_MODELS.glob('*.tla'))
        self.assertEqual(3, len(models))
        for model in models:
            self.assertIn(f'``{model.name}``', page)
        for configuration in sorted(_MODELS.glob('*.cfg')):
            self.assertIn(f'``{configuration.name}``', page)
            checked = re.findall(r'^(?:INVARIANTS|PROPERTIES) (.*)$', configuration.read_text(),
                                 re.MULTILINE)
            names = {name for line in checked for name in line.split()} - {'TypeOK'}
            self.assertNotEqual(set(), names)
            for name in sorted(names):
                self.assertIn(f'``{name}``', page)


class ToolTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.tool = _tool()

    def test_every_model_has_a_configuration_and_faults(self) -> None:
        models = self.tool.configurations()
        self.assertEqual({'Collapse', 'Recovery', 'Merge'}, set(models))
        for model, configurations in models.items():
            self.assertNotEqual([], configurations)
            self.assertGreaterEqual(len(self.tool.faults(model)), 4)

    def test_configuration_that_names_a_fault_is_tried_first(self) -> None:
        configurations = self.tool.configurations()['Recovery']
        for fault, first in (('no-epoch', 'RecoveryEpoch'), ('fall-back', 'RecoveryCrashes'),
                             ('no-lease', 'Recovery')):
            self.assertEqual(first, self.tool.likeliest_first(configurations, fault)[0].stem)
            self.assertIn(fault, self.tool.faults('Recovery'))

    def test_verdict_of_a_model_that_holds_is_read(self) -> None:
        result = self.tool.verdict(
            'Model checking completed. No error has been found.\n'
            '148229 states generated, 35486 distinct states found, 0 states left on queue.\n', 2.5)
        self.assertEqual((35486, None), (result.distinct, result.violated))

    def test_verdict_names_what_is_violated(self) -> None:
        result = self.tool.verdict(
            'Error: Invariant OneVisible is violated.\n'
            '6410 states generated, 1741 distinct states found, 403 states left on queue.\n', 1)
        self.assertEqual('Invariant OneVisible', result.violated)

    def test_run_without_verdict_is_an_error(self) -> None:
        self.assertRaises(self.tool.ModelError, self.tool.verdict, 'Parsing or semantic error', 1)
        self.assertRaises(
            self.tool.ModelError, self.tool.verdict,
            '10 states generated, 5 distinct states found, 2 states left on queue.', 1)
