# SPDX-License-Identifier: Apache-2.0
"""The options that an operator can set: few, and those that were removed stay removed."""

from importlib import machinery
from importlib import util
import sys

import testtools

from specreds_cinder import conf as cinder_conf
from specreds_nova import conf as nova_conf
from specreds_nova.engine import conf as engine_conf
from specreds_nova.sentinel import conf as sentinel_conf
from specreds_nova.tests.unit.packaging import base

# This number only ever falls: what can be derived, measured or told is no option.
_MOST = 25


def options() -> list[str]:
    """Return what tools/count-options prints."""
    loader = machinery.SourceFileLoader('specreds_count_options',
                                        str(base.ROOT / 'tools/count-options'))
    spec = util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = util.module_from_spec(spec)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writes
    printed: list[str] = module.options()
    return printed


class OptionsTest(testtools.TestCase):

    def test_options_are_few(self) -> None:
        self.assertLessEqual(len(options()), _MOST)

    def test_options_say_when_to_set_them(self) -> None:
        for option in (*cinder_conf.OPTIONS, *nova_conf.OPTIONS, *sentinel_conf.OPTIONS,
                       *engine_conf.OPTIONS):
            self.assertTrue(str(option.help).startswith('Set this when '), option.name)
