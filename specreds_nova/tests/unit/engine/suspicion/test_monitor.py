# SPDX-License-Identifier: Apache-2.0
"""Silence of hosts, and what their beats say."""

import dataclasses
import math
import threading
from typing import Any

from specreds_nova.beats import message
from specreds_nova.engine import model
from specreds_nova.engine.suspicion import evidence
from specreds_nova.tests.unit.engine.suspicion import base

# Seconds after which an awaited event counts as missing.
_PATIENCE = 60.0


class SilenceTest(base.CloudTestCase):
    """Silent, late and returning hosts."""

    def test_beating_hosts_are_trusted(self) -> None:
        self.run_for(30)
        self.assertEqual(sorted(self.nodes), sorted(self.monitor.healthy()))
        self.assertEqual(sorted(self.nodes), sorted(self.witness.names('appeared')))
        self.assertEqual([], self.witness.names('suspected'))

    def test_dead_host_is_suspected_within_a_second(self) -> None:
        self.nodes['cn2'].alive = False
        self.run_for(1)
        self.assertEqual({'cn2'}, self.suspected())
        [(_, _, (host, why))] = [event for event in self.witness.events if event[1] == 'suspected']
        self.assertEqual('cn2', host)
        self.assertEqual([evidence.SILENCE], [item['kind'] for item in why])
        self.assertNotIn('cn2', self.monitor.healthy())
        self.assertEqual([], self.gate('cn2'))

    def test_kernels_are_those_of_heard_hosts(self) -> None:
        self.nodes['cn1'].more['kernel'] = 'k1'
        self.nodes['cn2'].more['kernel'] = 'k2'
        self.run_for(2)
        self.assertEqual({'cn1': 'k1', 'cn2': 'k2'}, self.monitor.kernels())
        self.nodes['cn2'].alive = False
        self.run_for(1)
        self.assertEqual({'cn1': 'k1'}, self.monitor.kernels())

    def test_host_is_answerable_with_its_latest_beat_while_it_is_suspected(self) -> None:
        last = self.nodes['cn2'].number - 1
        self.nodes['cn2'].alive = False
        self.run_for(1)
        self.assertEqual(['cn2'], self.monitor.all_suspected())
        hosts = {host: (boot, number) for host, boot, number in self.monitor.answerable()}
        self.assertEqual(('b1', self.nodes['cn1'].number - 1), hosts['cn1'])
        self.assertEqual(('b1', last), hosts['cn2'])

    def test_places_are_unknown_until_nova_has_answered(self) -> None:
        self.run_for(1)
        self.assertIsNone(self.monitor.places('cn1'))
        self.assertIsNone(self.monitor.places('unheard'))
        self.monitor.listed(['cn1', 'cn3'])
        self.monitor.place({'cn1': ['availability zone z1']})
        self.assertEqual(('availability zone z1',), self.monitor.places('cn1'))
        # Nova does not list it.
        self.assertEqual((), self.monitor.places('cn2'))
        # The database of its cell does not answer Nova.
        self.assertIsNone(self.monitor.places('cn3'))

    def test_sentinels_are_known_by_the_latest_report(self) -> None:
        self.assertEqual({}, self.monitor.sentinels())
        for name, lease, age in (('cn1', message.LEASED, 6.0), ('cn2', message.LEASED, 60.0),
                                 ('cn3', message.LEASED, None), ('cn4', message.UNLEASED, 0.5)):
            self.monitor.heard(self.nodes[name].beat(lease=lease, sentinel_age=age))
        self.run_for(1)
        self.assertEqual({'cn1': model.LIVE, 'cn2': model.SILENT, 'cn3': model.SILENT,
                          'cn4': model.UNLEASED}, self.monitor.sentinels())
        self.monitor.forget('cn1')
        self.assertNotIn('cn1', self.monitor.sentinels())

    def test_sentinel_hides_servers_by_a_fresh_report_only(self) -> None:
        self.run_for(1)
        for lease, age, hides in (('', None, None), (message.LEASED, 6.0, True),
                                  (message.LEASED, 60.0, None), (message.LEASED, None, None),
                                  (message.SHOWS, 0.5, False), (message.UNLEASED, 0.5, False)):
            self.monitor.heard(self.nodes['cn1'].beat(lease=lease, sentinel_age=age))
            self.assertEqual(hides, self.monitor.hides('cn1', 0.0))
        self.monitor.heard(self.nodes['cn1'].beat(lease=message.LEASED, sentinel_age=0.5))
        self.run_for(1)
        # The report is older than that.
        self.assertIsNone(self.monitor.hides('cn1', self.clock.now() - 0.5))

    def test_hosts_that_lose_storage_together_are_answerable(self) -> None:
        for node in self.nodes.values():
            node.more['storage_age'] = 6.0
        self.run_for(1)
        self.assertEqual(sorted(self.nodes), sorted(self.monitor.all_suspected()))
        self.assertEqual(sorted(self.nodes), sorted(
            host for host, _, _ in self.monitor.answerable()))

    def test_late_host_is_doubted_before_it_is_suspected(self) -> None:
        node = self.nodes['cn2']
        for _ in range(2):
            node.alive = False
            self.run_for(0.65)
            self.assertEqual([], self.witness.names('suspected'))
            node.alive = True
            self.run_for(3)
        self.assertEqual(['cn2', 'cn2'], self.witness.names('doubted'))
        node.alive = False
        self.run_for(5)
        self.assertEqual(['cn2'] * 3, self.witness.names('doubted'))
        names = [name for _, name, _ in self.witness.events if name != 'appeared']
        self.assertEqual(['doubted', 'suspected'], names[-2:])

    def test_time_until_a_late_host_is_suspected_is_known(self) -> None:
        self.assertEqual(math.inf, self.monitor.due_in())
        self.nodes['cn2'].alive = False
        self.run_for(0.5)
        left = self.monitor.due_in()
        self.assertTrue(0.0 < left < 0.3, left)
        self.nodes['cn2'].alive = True
        self.run_for(0.3)
        self.assertEqual(math.inf, self.monitor.due_in())

    def test_echo_from_after_that_time_ends_the_pause(self) -> None:
        self.nodes['cn2'].alive = False
        self.run_for(0.5)
        pause = threading.Thread(target=self.monitor.pause, args=(_PATIENCE,))
        pause.start()
        due = self.clock.time + self.monitor.due_in()
        self.clock.time = due + 0.01
        self.monitor.echo(due - 0.01)
        pause.join(0.01)
        self.assertTrue(pause.is_alive())
        self.monitor.echo(due + 0.01)
        pause.join(_PATIENCE)
        self.assertFalse(pause.is_alive())
        self.monitor.tick()
        self.assertEqual({'cn2'}, self.suspected())

    def test_ready_backup_is_reported(self) -> None:
        self.nodes['cn2'].more['ready'] = ('r1', 'r2')
        self.run_for(0.3)
        self.assertEqual([('cn2', 'r1'), ('cn2', 'r2')], [
            (host, backup) for host in ('cn1', 'cn2', 'nobody') for backup in ('r1', 'r2', 'r3')
            if self.monitor.ready(host, ['x', backup])])
        del self.nodes['cn2'].more['ready']
        self.run_for(0.3)
        self.assertFalse(self.monitor.ready('cn2', ['r1']))

    def test_time_of_the_last_trust_is_known(self) -> None:
        node = self.nodes['cn2']
        node.alive = False
        self.run_for(2)
        node.alive = True
        self.run_for(0.3)
        view = self.monitor.look('cn2')
        assert view is not None and view.well is not None and view.heard is not None
        self.assertTrue(view.suspected)
        self.assertGreater(view.heard - view.well, 1.9)
        self.run_for(2)
        view = self.monitor.look('cn2')
        assert view is not None
        self.assertEqual(view.heard, view.well)

    def test_returning_host_is_cleared(self) -> None:
        node = self.nodes['cn2']
        node.alive = False
        self.run_for(2)
        node.alive = True
        self.run_for(0.3)
        self.assertEqual({'cn2'}, self.suspected())
        self.run_for(1)
        self.assertEqual(set(), self.suspected())
        self.assertEqual(['cn2'], self.witness.names('cleared'))
        view = self.monitor.look('cn2')
        assert view is not None
        self.assertEqual(1, view.flaps)

    def test_delayed_beats_do_not_clear(self) -> None:
        node = self.nodes['cn2']
        node.alive = False
        self.run_for(2)
        for _ in range(10):
            self.monitor.heard(node.beat())
        self.run_for(0.1)
        self.assertEqual({'cn2'}, self.suspected())

    def test_rebooted_host_does_not_count_as_flapping(self) -> None:
        node = self.nodes['cn2']
        node.alive = False
        self.run_for(2)
        node.alive, node.boot, node.number = True, 'b2', 0
        self.run_for(2)
        self.assertEqual(set(), self.suspected())
        view = self.monitor.look('cn2')
        assert view is not None
        self.assertEqual(0, view.flaps)

    def test_beats_are_counted(self) -> None:
        self.monitor.counted()
        self.run_for(2)
        self.assertEqual(len(self.nodes) * 10, self.monitor.counted())
        self.assertEqual(0, self.monitor.counted())

    def test_running_domains_are_known(self) -> None:
        node = self.nodes['cn2']
        self.assertTrue(self.monitor.runs('cn2', 's1'), 'it does not say what runs')
        node.more = {'kernel': 'k1', 'running': 'd1'}
        self.run_for(1)
        self.assertIsNone(self.monitor.runs('cn2', 's1'))
        self.monitor.heard(node.beat(domains=('s1',)))
        self.run_for(1)
        self.assertTrue(self.monitor.runs('cn2', 's1'))
        self.assertIs(False, self.monitor.runs('cn2', 's2'))
        node.more['running'] = 'd2'
        self.run_for(1)
        self.assertIsNone(self.monitor.runs('cn2', 's1'), 'something has changed')

    def test_restarted_compute_has_another_boot(self) -> None:
        self.assertEqual('b1', self.monitor.boot('cn2'))
        self.assertIsNone(self.monitor.boot('cn99'))
        node = self.nodes['cn2']
        self.restart(node, 'b2')
        self.monitor.heard(node.beat())
        self.assertEqual('b2', self.monitor.boot('cn2'))

    def restart(self, node: base.Node, boot: str) -> None:
        """Let nova-compute be killed, and start again after a moment."""
        node.alive = False
        self.run_for(0.5)
        node.alive, node.boot, node.number = True, boot, 0

    def test_rebooted_host_runs_no_domain(self) -> None:
        node = self.nodes['cn2']
        node.more = {'kernel': 'k1', 'running': 'd1'}
        self.monitor.heard(node.beat(domains=('s1',)))
        node.alive = False
        self.run_for(2)
        self.assertTrue(self.monitor.runs('cn2', 's1'))
        node.alive, node.boot, node.number = True, 'b2', 0
        node.more = {'kernel': 'k2'}
        self.run_for(2)
        self.assertEqual(set(), self.suspected())
        self.assertIs(False, self.monitor.runs('cn2', 's1'), 'before libvirt has answered')
        node.more['running'] = 'd1'
        self.monitor.heard(node.beat(domains=('s1',)))
        self.assertTrue(self.monitor.runs('cn2', 's1'), 'Nova has started it')

    def test_restarted_compute_of_a_rebooted_host_may_have_started_a_domain(self) -> None:
        self.test_rebooted_host_runs_no_domain()
        node = self.nodes['cn2']
        self.restart(node, 'b3')
        node.more['running'] = ''
        self.monitor.heard(node.beat())
        self.assertIsNone(self.monitor.runs('cn2', 's3'), 'before libvirt has answered')
        node.more['running'] = 'd2'
        self.monitor.heard(node.beat(domains=('s1', 's3')))
        self.assertTrue(self.monitor.runs('cn2', 's3'), 'it was paused when Nova restarted')

    def test_stopped_service_in_nova_is_evidence(self) -> None:
        node = self.nodes['cn2']
        node.alive = False
        self.run_for(30)
        node.alive, node.boot, node.number = True, 'b2', 0
        node.more = {'libvirt_age': 11.0}
        self.run_for(2)
        reported = self.clock.now() - 30.0
        self.assertEqual(set(), self.suspected())
        self.weigh(evidence.NOVA, 0.9)
        self.monitor.note('cn2', evidence.NOVA, 'then', seen=reported)
        self.run_for(1)
        self.assertEqual(set(), self.suspected())
        self.monitor.note('cn2', evidence.NOVA, 'then', seen=self.clock.now())
        self.run_for(1)
        self.assertEqual({'cn2'}, self.suspected())
        node.boot, node.number = 'b3', 0
        self.run_for(2)
        self.assertEqual(set(), self.suspected(), 'it is another one again')

    def test_goodbye_prevents_a_suspicion(self) -> None:
        node = self.nodes['cn2']
        node.alive = False
        self.monitor.heard(node.beat(leaving=True))
        self.run_for(600)
        self.assertEqual(set(), self.suspected())
        self.assertNotIn('cn2', self.monitor.healthy())
        node.alive, node.boot, node.number = True, 'b2', 0
        self.run_for(1)
        self.assertIn('cn2', self.monitor.healthy())
        node.alive = False
        self.run_for(1)
        self.assertEqual({'cn2'}, self.suspected())

    def goodbye(self, name: str, **more: Any) -> None:
        """Send a goodbye of a host, which is silent afterwards."""
        node = self.nodes[name]
        node.alive = False
        self.monitor.heard(node.beat(leaving=True, **more))

    def test_host_that_leaves_meanwhile_is_no_destination(self) -> None:
        self.goodbye('cn2')
        self.assertFalse(self.monitor.suspected('cn2'))
        self.assertEqual(sorted(self.nodes.keys() - {'cn2'}), sorted(self.monitor.healthy()))

    def test_long_silence_after_a_goodbye_is_suspected(self) -> None:
        self.goodbye('cn2', goodbye=message.SYSTEM)
        self.goodbye('cn3', goodbye=message.SERVICE)
        self.run_for(299)
        self.assertEqual(set(), self.suspected())
        self.run_for(2)
        self.assertEqual({'cn2'}, self.suspected())
        self.assertEqual(['silence'], [item['kind'] for item in self.why('cn2')])

    def why(self, name: str) -> tuple[Any, ...]:
        """Return the evidence against a host."""
        view = self.monitor.look(name)
        assert view is not None
        return view.why

    def test_goodbye_clears_no_suspicion(self) -> None:
        node = self.nodes['cn2']
        node.more = {'storage_age': 6.0}
        self.run_for(2)
        self.assertEqual({'cn2'}, self.suspected())
        self.goodbye('cn2', goodbye=message.SYSTEM)
        self.run_for(10)
        self.assertEqual({'cn2'}, self.suspected())
        node.alive, node.boot, node.number, node.more = True, 'b2', 0, {}
        self.run_for(2)
        self.assertEqual(set(), self.suspected())

    def test_goodbye_and_return_are_reported(self) -> None:
        self.goodbye('cn2')
        self.run_for(1)
        at = self.clock.now() - 1.0
        node = self.nodes['cn2']
        node.alive, node.boot, node.number = True, 'b2', 0
        self.run_for(1)
        departures = [arguments for _, name, arguments in self.witness.events if name == 'left']
        self.assertEqual([('cn2', message.SERVICE), ('cn2', None)],
                         [departure[:2] for departure in departures])
        self.assertAlmostEqual(at, departures[0][2], delta=0.1)

    def test_restarted_engine_honours_an_earlier_goodbye(self) -> None:
        said = self.clock.now() - 100.0
        self.monitor.expect(['cn8', 'cn9'])
        self.monitor.left('cn8', message.SYSTEM, said)
        self.monitor.left('cn9', message.SERVICE, said)
        self.run_for(150)
        self.assertEqual([], self.witness.names('suspected'))
        self.run_for(60)
        self.assertEqual(['cn8'], self.witness.names('suspected'))

    def test_host_that_is_heard_meanwhile_has_said_no_earlier_goodbye(self) -> None:
        self.monitor.left('cn1', message.SYSTEM, self.clock.now())
        self.assertIn('cn1', self.monitor.healthy())
        self.nodes['cn1'].alive = False
        self.run_for(2)
        self.assertEqual({'cn1'}, self.suspected())

    def test_boot_of_a_host_that_is_heard_meanwhile_is_the_latest(self) -> None:
        self.nodes['cn1'].more['kernel'] = 'k2'
        self.run_for(2)
        booted = self.witness.names('booted')
        # Recorded before the boot that this engine has heard of.
        self.monitor.booted('cn1', 'k1')
        self.run_for(2)
        self.assertEqual(booted, self.witness.names('booted'))

    def test_old_beats_are_ignored(self) -> None:
        node = self.nodes['cn2']
        node.alive = False
        old = dataclasses.replace(node.beat(), number=3)
        for _ in range(20):
            self.monitor.heard(old)
            self.run_for(0.05)
        self.assertEqual({'cn2'}, self.suspected())

    def test_host_that_was_never_heard_is_not_suspected(self) -> None:
        self.assertTrue(self.monitor.suspected('cn9'))
        self.assertIsNone(self.monitor.look('cn9'))
        self.monitor.expect(['cn9', 'cn1'])
        self.run_for(1)
        self.assertEqual(['cn9'], self.witness.names('suspected'))
        self.monitor.forget('cn9')
        self.assertIsNone(self.monitor.look('cn9'))

    def test_failing_observer_does_not_stop_the_monitor(self) -> None:
        def fail(*_arguments: object) -> None:
            raise RuntimeError('played')

        self.witness.cleared = self.witness.suspected = fail  # type: ignore[assignment]
        self.nodes['cn2'].alive = self.nodes['cn4'].alive = False
        self.run_for(1)
        self.assertEqual({'cn2', 'cn4'}, self.suspected())
