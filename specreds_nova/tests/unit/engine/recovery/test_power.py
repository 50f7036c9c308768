# SPDX-License-Identifier: Apache-2.0
"""Power-off of fenced hosts, with mocks, and with sushy's emulator of Redfish."""

import importlib.util
import pathlib
import socket
import subprocess
import sys
import time
from typing import Any
from unittest import mock

import fixtures
from oslo_config import cfg
import requests

from specreds_nova.engine import conf as engine_conf
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import power
from specreds_nova.tests.unit.engine.recovery import base

_PATIENCE = 60.0
_SYSTEM = '27946b59-9e44-4fa7-8e91-f3527a1ef094'
_ACCOUNT = ('admin', 's,cret@:/')
# The password as a URL has it, and as the emulator checks it.
_QUOTED = 's%2Ccret%40%3A%2F'
_HASHED = '$2b$04$yyYPZLX5l49IWqj.zTxyeevfamNiFa4ZCdQgKEkqlPfDxXh1cbbxu'


class PowerOffTest(base.RecoveryTest):
    """A fenced host of which every server was promoted elsewhere."""

    def setUp(self) -> None:
        super().setUp()
        self.context = self.make_context(power_off_after=30.0)
        self.systems: Any = mock.Mock()
        self.power = self.engine('ctl1')
        self.compute.servers.return_value = []
        self.suspect(state=model.FENCED)
        self.power.look()
        self.clock.time += 31.0

    def engine(self, name: str) -> power.PowerOff:
        """Return the part of an engine that powers hosts off."""
        powers = power.PowerOff(self.context, self.systems, name)
        self.addCleanup(powers.close)
        return powers

    def look(self, *powers: power.PowerOff) -> int:
        """Let engines look, and return how often the host was powered off."""
        before = self.systems.power_off.call_count
        for each in powers or (self.power,):
            for task in each.look():
                task.result(_PATIENCE)
        count: int = self.systems.power_off.call_count - before
        return count

    def test_host_is_powered_off_once(self) -> None:
        self.assertEqual(1, self.look())
        self.systems.power_off.assert_called_with('h1')
        self.assertIn('powered off by ctl1', str(self.store.host('h1').why))
        self.clock.time += 1000.0
        self.assertEqual(0, self.look())

    def test_host_whose_mode_is_unknown_holds_no_other_one_up(self) -> None:
        modes = self.context.modes
        real = modes.of

        def of(host: str) -> str:
            if host == 'h0':
                raise exception.Unreachable('Nova has not said yet where it is')
            return real(host)
        self.patch(modes, 'of', of)
        self.store.change_host(self.store.host('h0'), state=model.FENCED)
        self.clock.time -= 31.0
        self.power.look()
        self.clock.time += 31.0
        self.assertEqual(1, self.look())

    def test_sentinel_has_time_to_end_the_servers(self) -> None:
        self.clock.time -= 2.0
        self.assertEqual(0, self.look())

    def test_one_of_two_engines_powers_a_host_off(self) -> None:
        second = self.engine('ctl2')
        second.look()
        self.clock.time += 31.0
        self.assertEqual(1, self.look(second, self.power))

    def test_restarted_engine_does_not_power_off_a_host_that_boots(self) -> None:
        self.look()
        second = self.engine('ctl1')
        second.look()
        self.clock.time += 1000.0
        self.assertEqual(0, self.look(second))

    def test_host_that_is_back_meanwhile_is_left_alone(self) -> None:
        self.suspects.is_well.side_effect = [False, True, True]
        self.assertEqual(0, self.look())

    def test_host_that_an_operator_begins_to_work_on_meanwhile_is_left_alone(self) -> None:
        def is_well(_host: str) -> bool:
            self.set_mode(model.PAUSE)
            self.clock.time += 1.0
            return False
        self.suspects.is_well.side_effect = is_well
        self.assertEqual(0, self.look())

    def test_host_that_is_not_suspected_any_more_meanwhile_is_left_alone(self) -> None:
        self.suspects.suspected.return_value = False
        self.assertEqual(0, self.look())

    def test_host_that_another_engine_has_changed_meanwhile_is_left_to_it(self) -> None:
        self.patch(self.store, 'change_host', lambda *_arguments, **_values: None)
        self.assertEqual(0, self.look())

    def test_host_that_is_heard_is_left_alone(self) -> None:
        self.suspects.is_well.return_value = True
        self.assertEqual(0, self.look())

    def test_host_that_is_not_fenced_is_left_alone(self) -> None:
        self.store.change_host(self.store.host('h1'), state=model.SUSPECTED)
        self.assertEqual(0, self.look())

    def test_host_on_which_engines_do_not_act_is_left_alone(self) -> None:
        self.set_mode(model.OBSERVE)
        self.assertEqual(0, self.look())

    def test_host_without_redfish_is_left_alone(self) -> None:
        self.systems.known.return_value = False
        self.assertEqual(0, self.look())

    def test_host_with_another_server_is_left_alone(self) -> None:
        self.compute.servers.return_value = [base.make_server('a')]
        self.assertEqual(0, self.look())
        self.compute.servers.return_value = [base.make_server('a', status='SHUTOFF')]
        self.assertEqual(1, self.look())

    def test_living_primary_keeps_its_host(self) -> None:
        self.compute.servers.return_value = [base.make_server('a')]
        for state, outcome, times in (
                (model.RACING, None, 0), (model.ENDED, model.PRIMARY, 0),
                (model.ENDED, model.FAILED, 0), (model.COMMITTED, None, 1)):
            host = self.store.host('h1')
            recovery = model.Recovery(
                'r1', 'a', 'a', 'p', 'h1', host.since, state, outcome=outcome, created=host.since)
            with mock.patch.object(self.store, 'recoveries', return_value=[recovery]):
                self.assertEqual(times, self.look(), f'{state}, {outcome}')

    def test_recovery_of_an_earlier_suspicion_does_not_count(self) -> None:
        self.compute.servers.return_value = [base.make_server('a')]
        recovery = model.Recovery('r1', 'a', 'a', 'p', 'h1', 1.0, model.ENDED,
                                  outcome=model.RECOVERED, created=1.0)
        with mock.patch.object(self.store, 'recoveries', return_value=[recovery]):
            self.assertEqual(0, self.look())

    def test_failed_power_off_is_tried_again(self) -> None:
        self.systems.power_off.side_effect = exception.Unreachable('the controller of h1')
        self.assertEqual(1, self.look())
        self.assertEqual(0, self.look())
        self.clock.time += 61.0
        self.systems.power_off.side_effect = None
        self.assertEqual(1, self.look())


class OffTest(base.RecoveryTest):
    """A suspected host whose controller is asked."""

    def setUp(self) -> None:
        super().setUp()
        self.systems: Any = mock.Mock(**{'is_off.return_value': True})
        self.power = power.PowerOff(self.context, self.systems, 'ctl1')
        self.addCleanup(self.power.close)
        self.suspect()

    def dead_after(self, looks: int = 2) -> bool:
        """Look some times; return whether the host is recorded as dead."""
        for _ in range(looks):
            self.clock.time += 2.0
            for task in self.power.look():
                task.result(_PATIENCE)
        return self.store.host('h1').dead_at is not None

    def test_host_that_is_off_twice_is_dead(self) -> None:
        self.assertFalse(self.dead_after(1))
        said = self.clock.wall()
        self.assertTrue(self.dead_after(1))
        self.assertEqual(said, self.store.host('h1').dead_at)
        self.systems.power_off.assert_not_called()

    def test_host_that_was_dead_before_is_asked_about_once_more(self) -> None:
        self.assertTrue(self.dead_after())
        before = self.store.host('h1').dead_at
        self.clock.time += 600.0
        self.store.change_host(self.store.host('h1'), since=self.clock.wall())
        self.dead_after(1)
        self.assertEqual(before, self.store.host('h1').dead_at)
        said = self.clock.wall()
        self.dead_after(2)
        self.assertEqual(said, self.store.host('h1').dead_at)
        self.assertEqual(4, self.systems.is_off.call_count)

    def test_host_that_is_off_for_a_moment_is_not(self) -> None:
        self.systems.is_off.side_effect = [True, False, True]
        self.assertFalse(self.dead_after(3))

    def test_host_is_asked_about_anew_if_it_is_suspected_again(self) -> None:
        self.dead_after(1)
        self.store.change_host(self.store.host('h1'), since=self.clock.wall())
        self.assertFalse(self.dead_after(1))
        self.assertTrue(self.dead_after(1))

    def test_controller_that_does_not_answer_is_no_fact(self) -> None:
        self.systems.is_off.side_effect = exception.Unreachable('the controller of h1')
        self.assertFalse(self.dead_after(5))

    def test_host_that_is_heard_is_not_asked_about(self) -> None:
        self.suspects.is_well.return_value = True
        self.assertFalse(self.dead_after())
        self.systems.is_off.assert_not_called()


class RedfishTest(base.RecoveryTest):
    """The emulator of sushy-tools."""

    def setUp(self) -> None:
        super().setUp()
        if importlib.util.find_spec('sushy') is None or \
                importlib.util.find_spec('sushy_tools') is None:
            self.skipTest('there is no sushy')
        self.place = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        conf = self.place / 'emulator.conf'
        accounts = self.place / 'accounts'
        accounts.write_text(f'{_ACCOUNT[0]}:{_HASHED}\n')
        conf.write_text(
            f'SUSHY_EMULATOR_AUTH_FILE = {str(accounts)!r}\n'
            f'SUSHY_EMULATOR_STATE_DIR = {str(self.place)!r}\n'
            'SUSHY_EMULATOR_FAKE_DRIVER = True\n'
            'SUSHY_EMULATOR_FAKE_SYSTEMS = [{"uuid": "' + _SYSTEM + '", "name": "fake", '
            '"power_state": "On", "external_notifier": False, "nics": []}]\n')
        with (self.place / 'emulator.log').open('w') as log:
            emulator = subprocess.Popen(
                [sys.executable, '-m', 'sushy_tools.emulator.main', '--fake',
                 '--config', str(conf), '--interface', '127.0.0.1', '--port', str(self.port)],
                stdout=log, stderr=subprocess.STDOUT)
        self.addCleanup(emulator.wait)
        self.addCleanup(emulator.kill)
        until = time.monotonic() + _PATIENCE
        while not self.state():
            self.assertIsNone(emulator.poll(), (self.place / 'emulator.log').read_text())
            self.assertLess(time.monotonic(), until)
            time.sleep(0.1)

    @property
    def url(self) -> str:
        return self.url_for(f'{_ACCOUNT[0]}:{_QUOTED}')

    def url_for(self, account: str) -> str:
        return f'http://{account}@127.0.0.1:{self.port}/redfish/v1/Systems/{_SYSTEM}'

    def state(self) -> str:
        """Return whether the system is on or off; empty while the emulator does not answer."""
        try:
            return str(requests.get(self.url, timeout=_PATIENCE).json()['PowerState'])
        except requests.ConnectionError:
            return ''

    def redfish(self, url: str) -> power.Redfish:
        conf = cfg.ConfigOpts()
        engine_conf.register(conf)
        conf.set_override('redfish_systems', {'h1': url}, 'engine')
        return power.Redfish(conf.engine)

    def test_system_is_powered_off(self) -> None:
        redfish = self.redfish(self.url)
        self.assertEqual((True, False), (redfish.known('h1'), redfish.known('h2')))
        self.assertEqual('On', self.state())
        self.assertFalse(redfish.is_off('h1'))
        redfish.power_off('h1')
        until = time.monotonic() + _PATIENCE
        while self.state() != 'Off':
            self.assertLess(time.monotonic(), until)
            time.sleep(0.1)
        redfish.power_off('h1')
        self.assertEqual('Off', self.state())
        self.assertTrue(redfish.is_off('h1'))

    def test_controller_that_fails_is_unreachable(self) -> None:
        for url in (f'{self.url}0', self.url_for(f'admin:{_QUOTED}x'),
                    f'http://admin:{_QUOTED}@127.0.0.1:9/redfish/v1/Systems/1'):
            error = self.assertRaises(exception.Unreachable, self.redfish(url).power_off, 'h1')
            self.assertIn('the controller of h1', str(error))
            self.assertNotIn('cret', str(error))

    def test_missing_library_is_named_at_the_start(self) -> None:
        with mock.patch.dict(sys.modules, {'sushy': None}):
            error = self.assertRaises(exception.Invalid, self.redfish, self.url)
        self.assertIn('specreds[redfish]', str(error))
