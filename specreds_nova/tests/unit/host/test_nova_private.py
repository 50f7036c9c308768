# SPDX-License-Identifier: Apache-2.0
"""The guard against releases of Nova that the driver does not fit."""

from typing import Any
from unittest import mock

import ddt
from nova.virt.libvirt import driver as libvirt_driver

from specreds_nova import exception
from specreds_nova.host import driver
from specreds_nova.host import entry
from specreds_nova.host import nova_private
from specreds_nova.host import unfit
from specreds_nova.tests.unit.host import base

_OWNER = f'{__name__}.Nova'


class Nova:
    """A class of another release."""

    def __init__(self) -> None:
        self._attribute = 1

    def method(self, context: Any, instance: Any, more: Any = None) -> None:
        """Do something."""

    def needy(self, context: Any, instance: Any, other: Any) -> None:
        """Do something with an argument that other releases do not have."""

    @staticmethod
    def static(context: Any) -> None:
        """Do something without an instance."""


@ddt.ddt
class NovaPrivateTest(base.TestCase):
    """The Nova that is installed, and others."""

    def test_installed_nova_fits(self) -> None:
        self.assertEqual([], nova_private.faults())
        self.assertIs(driver.SpeculativeLibvirtDriver, entry.chosen())

    @ddt.data(
        (nova_private.Method(_OWNER, 'method', ('context', 'instance'), ('more',), True), None),
        (nova_private.Method(_OWNER, 'static', ('context',), called=True), None),
        (nova_private.Method(_OWNER, 'needy', ('context', 'instance')), None),
        (nova_private.Attribute(_OWNER, '_attribute'), None),
        (nova_private.Method(_OWNER, 'absent'), 'has no absent()'),
        (nova_private.Method(_OWNER, 'method', ('instance',)), 'begins with arguments context'),
        (nova_private.Method(_OWNER, 'method', named=('disks',)), 'has no argument disks'),
        (nova_private.Method(_OWNER, 'needy', ('context', 'instance'), called=True),
         'needs another argument: other'),
        (nova_private.Attribute(_OWNER, '_absent'), 'has no attribute _absent'))
    @ddt.unpack
    def test_difference_is_named(self, used: Any, words: str | None) -> None:
        fault = used.fault()
        if words is None:
            self.assertIsNone(fault)
        else:
            self.assertIn(words, fault)

    def test_absent_classes_and_modules_are_named(self) -> None:
        used = [nova_private.Method('nova.virt.libvirt.driver.Absent', 'method'),
                nova_private.Method('nova.absent.Class', 'method')]
        with mock.patch.object(nova_private, 'USED', used):
            faults = nova_private.faults()
        self.assertEqual(2, len(faults))
        self.assertIn('nova.virt.libvirt.driver.Absent is not there', faults[0])

    def test_every_overridden_method_is_guarded(self) -> None:
        guarded = {used.name for used in nova_private.USED if used.owner.endswith('LibvirtDriver')}
        overridden = {
            name for ours in driver.SpeculativeLibvirtDriver.__mro__
            if ours.__module__.startswith('specreds_nova') for name, member in vars(ours).items()
            if callable(member) and hasattr(libvirt_driver.LibvirtDriver, name)}
        self.assertEqual(set(), overridden - guarded - {'__init__', '__doc__', '__module__'})


class UnfitTest(base.TestCase):
    """A host whose Nova has another method."""

    def setUp(self) -> None:
        super().setUp()
        used = [nova_private.Method('nova.virt.libvirt.driver.LibvirtDriver', 'absent')]
        patched = mock.patch.object(nova_private, 'USED', used)
        patched.start()
        self.addCleanup(patched.stop)

    def test_novas_own_driver_is_loaded(self) -> None:
        chosen = entry.chosen()
        self.assertIs(unfit.PlainLibvirtDriver, chosen)
        self.assertEqual({'init_host'}, {
            name for name in vars(chosen) if hasattr(libvirt_driver.LibvirtDriver, name)
            and not name.startswith('__')})

    def test_host_answers_why(self) -> None:
        virtapi = mock.Mock()
        virtapi._compute.additional_endpoints = []
        plain = unfit.PlainLibvirtDriver(virtapi)
        with mock.patch.object(libvirt_driver.LibvirtDriver, 'init_host') as init_host:
            plain.init_host(base.HOST)
        init_host.assert_called_once_with(base.HOST)
        [endpoint] = virtapi._compute.additional_endpoints
        answer = endpoint.check({}, instance_uuid=base.SERVER)
        self.assertFalse(answer['eligible'])
        self.assertIn('LibvirtDriver has no absent()', answer['reasons'][0])
        refusal = unfit.Refusal(['it is another'])
        for name in ('start', 'status', 'promote', 'abort', 'clean'):
            exc = self.assertRaises(exception.ServerNotEligible, getattr(refusal, name), 'r')
            self.assertIn('it is another', str(exc))

    def test_nova_compute_without_endpoints_still_starts(self) -> None:
        plain = unfit.PlainLibvirtDriver(mock.Mock(spec=[]))
        with mock.patch.object(libvirt_driver.LibvirtDriver, 'init_host'):
            plain.init_host(base.HOST)

    def test_driver_itself_is_not_needed_for_that(self) -> None:
        # Its definition relies on Nova's methods.
        with mock.patch.dict('sys.modules', {'specreds_nova.host.driver': None}):
            self.assertIs(unfit.PlainLibvirtDriver, entry.chosen())
