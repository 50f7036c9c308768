# SPDX-License-Identifier: Apache-2.0
"""Nova's own tests of its libvirt driver, with this project's driver in its place.

They are a suite of their own because Nova's tests change mock for every test of the process. The
installed Nova has 1,200 of them, which take two minutes of processor time. With
``SPECREDS_UPSTREAM_TESTS=overridden`` in the environment, only the tests run that name a method
that this project's driver overrides, which is every fourth.
"""

import inspect
import os
import re
from typing import Any
import unittest
from unittest import mock

# Nova does not require what only its tests need: see test-requirements.txt.
from nova.tests.unit.virt.libvirt import test_driver as upstream

from specreds_nova.host import driver
from specreds_nova.host.unmerged import driver as unmerged_driver

_ALL = os.environ.get('SPECREDS_UPSTREAM_TESTS', 'all') != 'overridden'
_THEIRS = upstream.libvirt_driver.LibvirtDriver
_REPLACED = ('_create_ephemeral', '_create_swap')
_OVERRIDDEN = sorted(
    name for ours in (driver.SpeculativeLibvirtDriver, unmerged_driver.UnmergedLibvirtDriver)
    for name in vars(ours)
    if not name.startswith('__') and hasattr(_THEIRS, name))
# A call, or a replacement by a name in quotes.
_NAMED = re.compile(r'[.\'"](?:{})\b'.format('|'.join(_OVERRIDDEN)))
# Not tests of the driver; until 2026.1 their threads of eventlet wait for others without end.
_OTHERS = ('CacheConcurrencyTestCase',)


class _Constructed:
    """A driver that is constructed under Nova's own name, which Nova 2025.2 refers to."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        with mock.patch.object(upstream.libvirt_driver, 'LibvirtDriver', _THEIRS):
            super().__init__(*args, **kwargs)


class Substituted:
    """A test with this project's driver in the place of Nova's."""

    def setUp(self) -> None:
        """Replace the driver before the test constructs one."""
        # Each test has a class of its own, because some tests change it. The class has copies of
        # the static methods that a fixture replaces, because it cannot replace inherited ones.
        ours = type('LibvirtDriver', (_Constructed, driver.SpeculativeLibvirtDriver), {
            name: inspect.getattr_static(driver.SpeculativeLibvirtDriver, name)
            for name in _REPLACED})
        patch = mock.patch.object(upstream.libvirt_driver, 'LibvirtDriver', ours)
        patch.start()
        super().setUp()  # type: ignore[misc]
        self.addCleanup(patch.stop)  # type: ignore[attr-defined]


def _runs(theirs: type[unittest.TestCase], name: str) -> bool:
    """Return whether a test is selected."""
    return _ALL or (theirs.__name__ not in _OTHERS and _NAMED.search(
        inspect.getsource(inspect.unwrap(getattr(theirs, name)))) is not None)


def _ours(theirs: type[unittest.TestCase]) -> type[unittest.TestCase]:
    # None as an attribute hides the test of that name.
    members: dict[str, Any] = {
        name: None for name in dir(theirs)
        if name.startswith('test') and not _runs(theirs, name)}
    return type(theirs.__name__, (Substituted, theirs), {'__module__': __name__, **members})


for _name, _theirs in list(vars(upstream).items()):
    if (isinstance(_theirs, type) and issubclass(_theirs, unittest.TestCase)
            and _theirs.__module__ == upstream.__name__):
        globals()[_name] = _ours(_theirs)
del _name, _theirs
