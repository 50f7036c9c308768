# SPDX-License-Identifier: Apache-2.0
"""Nova's own tests of its libvirt driver, run with ours in its place.

A suite of their own, as Nova's tests change mock for every test of the process. They are those of
the Nova that is installed: 1,200, which take two minutes of processor time. With
``SPECREDS_UPSTREAM_TESTS=overridden`` in the environment only those run that name a method that
our driver overrides: every fourth.
"""

import inspect
import os
import re
from typing import Any
import unittest
from unittest import mock

from specreds_nova.virt import driver
from specreds_nova.virt import guarded

try:
    from nova.tests.unit.virt.libvirt import test_driver as upstream
except ModuleNotFoundError as exc:
    # Nova does not bring along what only its tests need.
    raise unittest.SkipTest(f'{exc.name} is not installed: see test-requirements.txt') from exc

_ALL = os.environ.get('SPECREDS_UPSTREAM_TESTS', 'all') != 'overridden'
_THEIRS = upstream.libvirt_driver.LibvirtDriver
_REPLACED = ('_create_ephemeral', '_create_swap')
_OVERRIDDEN = sorted(
    name for ours in (driver.SpeculativeLibvirtDriver, guarded.GuardedLibvirtDriver)
    for name in vars(ours)
    if not name.startswith('__') and hasattr(_THEIRS, name))
# Called, or replaced by a name in quotes.
_NAMED = re.compile(r'[.\'"](?:{})\b'.format('|'.join(_OVERRIDDEN)))
# Not of the driver, and with threads of eventlet until 2026.1: they wait forever for others.
_OTHERS = ('CacheConcurrencyTestCase',)


class _Constructed:
    """Constructs a driver while Nova's has its own name, which it calls itself by in 2025.2."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        with mock.patch.object(upstream.libvirt_driver, 'LibvirtDriver', _THEIRS):
            super().__init__(*args, **kwargs)


class Substituted:
    """Puts our driver into the place of Nova's."""

    def setUp(self) -> None:
        """Before the test makes a driver."""
        # A class for each test, as some leave traces on it; with copies of what they replace by a
        # fixture that does not know how to replace static methods that are inherited.
        ours = type('LibvirtDriver', (_Constructed, driver.SpeculativeLibvirtDriver), {
            name: inspect.getattr_static(driver.SpeculativeLibvirtDriver, name)
            for name in _REPLACED})
        patch = mock.patch.object(upstream.libvirt_driver, 'LibvirtDriver', ours)
        patch.start()
        super().setUp()  # type: ignore[misc]
        self.addCleanup(patch.stop)  # type: ignore[attr-defined]


def _runs(theirs: type[unittest.TestCase], name: str) -> bool:
    """Return whether a test is one of those to run."""
    return _ALL or (theirs.__name__ not in _OTHERS and _NAMED.search(
        inspect.getsource(inspect.unwrap(getattr(theirs, name)))) is not None)


def _ours(theirs: type[unittest.TestCase]) -> type[unittest.TestCase]:
    # A name that is no test hides theirs.
    members: dict[str, Any] = {
        name: None for name in dir(theirs)
        if name.startswith('test') and not _runs(theirs, name)}
    return type(theirs.__name__, (Substituted, theirs), {'__module__': __name__, **members})


for _name, _theirs in list(vars(upstream).items()):
    if (isinstance(_theirs, type) and issubclass(_theirs, unittest.TestCase)
            and _theirs.__module__ == upstream.__name__):
        globals()[_name] = _ours(_theirs)
del _name, _theirs
