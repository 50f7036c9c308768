# SPDX-License-Identifier: Apache-2.0
"""Nova's own tests of its libvirt driver, run with ours in its place.

A suite of their own, as Nova's tests change mock for every test of the process. They are those of
the Nova that is installed: 1,200, which take two minutes of processor time. In a
hurry, ``SPECREDS_UPSTREAM_TESTS=8`` in the environment runs every eighth of them.
"""

import inspect
import os
from typing import Any
import unittest
from unittest import mock
import zlib

from specreds_nova.virt import driver

try:
    from nova.tests.unit.virt.libvirt import test_driver as upstream
except ModuleNotFoundError as exc:
    # Nova does not bring along what only its tests need.
    raise unittest.SkipTest(f'{exc.name} is not installed: see test-requirements.txt') from exc

_EVERY = int(os.environ.get('SPECREDS_UPSTREAM_TESTS', '1'))
_REPLACED = ('_create_ephemeral', '_create_swap')


class Substituted:
    """Puts our driver into the place of Nova's."""

    def setUp(self) -> None:
        """Before the test makes a driver."""
        # A class for each test, as some leave traces on it; with copies of what they replace by a
        # fixture that does not know how to replace static methods that are inherited.
        ours = type('LibvirtDriver', (driver.SpeculativeLibvirtDriver,), {
            name: inspect.getattr_static(driver.SpeculativeLibvirtDriver, name)
            for name in _REPLACED})
        patch = mock.patch.object(upstream.libvirt_driver, 'LibvirtDriver', ours)
        patch.start()
        super().setUp()  # type: ignore[misc]
        self.addCleanup(patch.stop)  # type: ignore[attr-defined]


def _ours(theirs: type[unittest.TestCase]) -> type[unittest.TestCase]:
    members: dict[str, Any] = {'__module__': __name__}
    for name in dir(theirs):
        full = f'{theirs.__name__}.{name}'
        if name.startswith('test') and zlib.crc32(full.encode()) % _EVERY:
            # A name that is no test hides theirs.
            members[name] = None
    return type(theirs.__name__, (Substituted, theirs), members)


for _name, _theirs in list(vars(upstream).items()):
    if (isinstance(_theirs, type) and issubclass(_theirs, unittest.TestCase)
            and _theirs.__module__ == upstream.__name__):
        globals()[_name] = _ours(_theirs)
del _name, _theirs
