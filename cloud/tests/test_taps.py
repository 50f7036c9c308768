# SPDX-License-Identifier: Apache-2.0
"""Devices of guests that Open vSwitch has lost."""

import pathlib

import fixtures
import testtools

from cloud.hosts import taps
from specreds_nova.beats import renewals
from specreds_nova.sentinel import lease
from specreds_nova.sentinel import links

TAP = 'tap1'


class TestReplaced(testtools.TestCase):
    """The userspace datapath listens to a device that exists no more."""

    def setUp(self) -> None:
        super().setUp()
        self.interfaces = {TAP: 'interface-1', 'br-int': 'interface-2'}
        self.questions = 0
        self.replaced = taps.Replaced(self._list)
        self.assertEqual(set(), self.replaced.find({TAP: 7}))

    def _list(self) -> dict[str, str]:
        self.questions += 1
        return dict(self.interfaces)

    def test_new_device_of_an_old_interface_is_found_once(self) -> None:
        self.assertEqual(set(), self.replaced.find({}))
        self.assertEqual({TAP}, self.replaced.find({TAP: 8}))
        self.assertEqual(set(), self.replaced.find({TAP: 8}))

    def test_new_device_of_a_new_interface_is_left(self) -> None:
        self.interfaces[TAP] = 'interface-3'
        self.assertEqual(set(), self.replaced.find({TAP: 8}))

    def test_device_without_an_interface_is_left(self) -> None:
        self.assertEqual(set(), self.replaced.find({TAP: 7, 'tap2': 8}))
        self.assertEqual(set(), self.replaced.find({TAP: 7, 'tap2': 9}))

    def test_open_vswitch_is_asked_only_about_new_devices(self) -> None:
        for _ in range(3):
            self.replaced.find({TAP: 7})
        self.assertEqual(1, self.questions)


class TestRestarted(testtools.TestCase):
    """The switch has another process than before."""

    def test_only_another_process_is_a_restart(self) -> None:
        file = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'ovs-vswitchd.pid'
        switch = taps.Restarted(file)
        self.assertFalse(switch.again())
        for number, again in (('20\n', False), ('20\n', False), ('', False), ('222\n', True),
                              ('222\n', False)):
            file.write_text(number)
            self.assertEqual(again, switch.again(), number)
        file.unlink()
        self.assertFalse(switch.again())


class TestHidden(testtools.TestCase):
    """What the sentinel has set down stays down."""

    def test_devices_of_the_sentinel_are_those_that_it_has_written_down(self) -> None:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.assertEqual(set(), taps.hidden(path / 'taps.json'))
        hider = lease.Lease(1e-9, path / 'taps.json', _Up())
        hider.renewed(renewals.now(), hides=True)
        hider.look([lease.Guest('instance-1', (TAP,))])
        self.assertEqual({TAP}, taps.hidden(path / 'taps.json'))


class _Up(links.Links):
    """An interface that is up until it is set down."""

    def up(self, name: str) -> int | None:
        return 7

    def there(self, name: str, index: int) -> bool:
        return True

    def set(self, name: str, index: int, state: str) -> bool:
        return True
