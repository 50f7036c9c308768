# SPDX-License-Identifier: Apache-2.0
"""Evidence other than silence, and hosts that fail together."""

import hypothesis
from hypothesis import strategies as st

from specreds_nova.beats import message
from specreds_nova.engine import model
from specreds_nova.engine.suspicion import evidence
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import monitor
from specreds_nova.engine.suspicion import settings as monitoring
from specreds_nova.tests.unit.engine.suspicion import base


class EvidenceTest(base.CloudTestCase):
    """Evidence other than silence."""

    def setUp(self) -> None:
        super().setUp()
        # Nova's word and a silent libvirt are enough together.
        self.weigh(evidence.NOVA, 0.8)

    def why(self, host: str) -> list[str]:
        view = self.monitor.look(host)
        assert view is not None
        return [entry['kind'] for entry in view.why]

    def test_lost_storage_is_evidence(self) -> None:
        self.nodes['cn1'].more = {'storage_age': 6.0}
        self.run_for(1)
        self.assertEqual({'cn1'}, self.suspected())
        self.assertEqual([evidence.STORAGE], self.why('cn1'))
        self.assertEqual([], self.gate('cn1'))
        self.nodes['cn1'].more = {'storage_age': 0.1}
        self.run_for(1)
        self.assertEqual(set(), self.suspected())
        view = self.monitor.look('cn1')
        assert view is not None
        self.assertEqual(0, view.flaps)

    def test_lost_storage_of_all_hosts_closes_the_gate(self) -> None:
        """Ceph is away: no recovery starts for the first host that reports it."""
        for node in self.nodes.values():
            node.more = {'storage_age': 4.0}
        self.nodes['cn1'].more = {'storage_age': 5.1}
        self.run_for(1)
        self.assertEqual({'cn1'}, self.suspected())
        self.assertIn('5 of 5', str(self.gate('cn1')))

    def test_host_whose_storage_returns_later_than_that_of_others_is_held_back(self) -> None:
        for node in self.nodes.values():
            node.more = {'storage_age': 6.0}
        self.run_for(8)
        for name in ('cn2', 'cn3', 'cn4', 'cn5'):
            self.nodes[name].more = {'storage_age': 0.1}
        self.run_for(6)
        self.assertEqual({'cn1'}, self.suspected())
        self.assertIn('5 of 5', str(self.gate('cn1')))
        self.run_for(3)
        self.assertEqual([], self.gate('cn1'), 'it had as long as the others were away')

    def test_end_of_a_short_stall_of_others_holds_a_host_back_for_as_short(self) -> None:
        for name in ('cn1', 'cn2', 'cn3', 'cn4'):
            self.nodes[name].more = {'storage_age': 6.0}
        self.run_for(1)
        for name in ('cn2', 'cn3', 'cn4'):
            self.nodes[name].more = {'storage_age': 0.1}
        self.run_for(2.5)
        self.assertEqual({'cn1'}, self.suspected())
        self.assertEqual([], self.gate('cn1'))

    def test_death_after_the_end_of_stalls_is_not_held_back(self) -> None:
        for name in ('cn1', 'cn2', 'cn3', 'cn4'):
            self.nodes[name].more = {'storage_age': 6.0}
        self.run_for(8)
        for node in self.nodes.values():
            node.more = {'storage_age': 0.1}
        self.nodes['cn5'].alive = False
        self.run_for(2)
        self.assertEqual({'cn5'}, self.suspected())
        self.assertEqual([], self.gate('cn5'))

    def test_death_beside_stalls_is_not_held_back(self) -> None:
        for name in ('cn1', 'cn2', 'cn3', 'cn4'):
            self.nodes[name].more = {'storage_age': 6.0}
        self.run_for(1)
        self.nodes['cn5'].alive = False
        self.run_for(1)
        self.assertEqual({*self.nodes}, self.suspected())
        self.assertEqual([], self.gate('cn5'))
        self.assertIn('5 of 5', str(self.gate('cn1')))

    def test_death_of_a_stalled_host_beside_stalls_is_held_back(self) -> None:
        for name in self.nodes:
            self.nodes[name].more = {'storage_age': 6.0}
        self.run_for(1)
        self.nodes['cn5'].alive = False
        self.run_for(1)
        self.assertIn('5 of 5', str(self.gate('cn5')))

    def test_host_that_falls_silent_is_not_heard_whatever_it_has_reported(self) -> None:
        for name in ('cn1', 'cn2', 'cn3'):
            self.nodes[name].more = {'storage_age': 6.0}
        self.run_for(1)
        for name in ('cn1', 'cn2', 'cn5'):
            self.nodes[name].alive = False
        self.run_for(1)
        self.assertIn('3 of 5', str(self.gate('cn5')))

    def test_silent_libvirt_alone_is_not_enough(self) -> None:
        self.nodes['cn1'].more = {'libvirt_age': 60.0}
        self.run_for(5)
        self.assertEqual(set(), self.suspected())
        self.assertNotIn('cn1', self.monitor.healthy())

    def test_silent_libvirt_with_other_evidence_is_enough(self) -> None:
        self.nodes['cn1'].more = {'libvirt_age': 60.0}
        self.monitor.note('cn1', evidence.NOVA, 'since a minute')
        self.run_for(0.3)
        self.assertEqual({'cn1'}, self.suspected())
        self.monitor.withdraw('cn1', evidence.NOVA)
        self.run_for(0.3)
        self.assertEqual(set(), self.suspected())

    def test_other_evidence_shortens_the_deadline(self) -> None:
        self.monitor.note('cn1', evidence.NOVA, 'since a minute')
        for name in ('cn1', 'cn2'):
            self.nodes[name].alive = False
        self.run_for(1)
        self.assertEqual('cn1', self.witness.names('suspected')[0])

    def test_evidence_expires(self) -> None:
        self.nodes['cn1'].more = {'libvirt_age': 60.0}
        self.monitor.note('cn1', evidence.NOVA, 'since a minute')
        self.run_for(1)
        self.assertEqual({'cn1'}, self.suspected())
        self.run_for(61)
        self.assertEqual(set(), self.suspected())

    def test_word_of_an_operator_overrides_the_detector(self) -> None:
        self.monitor.word('cn1', model.SUSPECT, 'a drill')
        self.run_for(0.1)
        self.assertEqual({'cn1'}, self.suspected())
        self.assertEqual([evidence.OPERATOR], self.why('cn1'))
        self.assertEqual([], self.gate('cn1'))
        self.monitor.word('cn1', model.CLEAR)
        self.run_for(0.1)
        self.assertEqual(set(), self.suspected())
        self.nodes['cn1'].alive = False
        self.run_for(60)
        self.assertEqual(set(), self.suspected())
        self.monitor.word('cn1', None)
        self.run_for(0.1)
        self.assertEqual({'cn1'}, self.suspected())

    def test_each_crashed_server_is_reported_once(self) -> None:
        self.nodes['cn1'].more = {'ended': ('s1', 's2')}
        self.run_for(3)
        self.nodes['cn1'].more = {'ended': ('s2', 's3')}
        self.run_for(3)
        crashed = [arguments[:2] for _, name, arguments in self.witness.events
                   if name == 'crashed']
        self.assertEqual([('cn1', 's1'), ('cn1', 's2'), ('cn1', 's3')], crashed)
        self.assertEqual(set(), self.suspected())

    def test_second_crash_of_a_server_is_reported(self) -> None:
        for ended in (('s1',), (), ('s1',)):
            self.nodes['cn1'].more = {'ended': ended}
            self.run_for(3)
        self.assertEqual(['cn1', 'cn1'], self.witness.names('crashed'))

    def test_second_crash_is_reported_while_the_first_one_still_is(self) -> None:
        node = self.nodes['cn1']
        for ended, domains in (((), ('s1',)), (('s1',), ()), (('s1',), ('s1',)), (('s1',), ())):
            node.more = {'kernel': 'k1', 'ended': ended, 'running': f'd{len(domains)}',
                         'domains': domains}
            self.run_for(1)
        self.assertEqual(['cn1', 'cn1'], self.witness.names('crashed'))

    def test_second_crash_between_two_beats_is_reported(self) -> None:
        for ended in (('s1',), ('s1', 's1'), ('s1', 's1')):
            self.nodes['cn1'].more = {'kernel': 'k1', 'ended': ended, 'running': 'd0',
                                      'domains': ()}
            self.run_for(1)
        self.assertEqual(['cn1', 'cn1'], self.witness.names('crashed'))

    def test_second_crash_is_reported_though_nobody_heard_that_the_first_was_over(self) -> None:
        node = self.nodes['cn1']
        node.more = {'ended': ('s1',)}
        self.run_for(9)
        self.assertEqual(['cn1'], self.witness.names('crashed'))
        node.alive = False
        self.run_for(4)
        node.alive = True
        self.run_for(5)
        self.assertEqual(['cn1', 'cn1'], self.witness.names('crashed'))


class TogetherTest(base.CloudTestCase):
    """Several silent hosts, at once and one by one."""

    def test_most_hosts_at_once_close_the_gate(self) -> None:
        for name in ('cn1', 'cn2', 'cn3'):
            self.nodes[name].alive = False
        for _ in range(100):
            self.run_for(0.05)
            for host in self.suspected():
                self.assertIn('silent', str(self.gate(host)))
        self.assertEqual({'cn1', 'cn2', 'cn3'}, self.suspected())

    def test_two_hosts_at_once_pass_the_gate(self) -> None:
        for name in ('cn1', 'cn2'):
            self.nodes[name].alive = False
        self.run_for(1)
        self.assertEqual([[], []], [self.gate(name) for name in ('cn1', 'cn2')])

    def test_hosts_that_die_one_by_one_pass_the_gate(self) -> None:
        for name in ('cn1', 'cn2', 'cn3'):
            self.nodes[name].alive = False
            self.run_for(40)
            self.assertEqual([], self.gate(name))

    def test_flapping_host_closes_the_gate_for_a_while(self) -> None:
        node = self.nodes['cn1']
        for _ in range(3):
            self.assertEqual([], self.gate('cn1'))
            node.alive = False
            self.run_for(6)
            node.alive = True
            self.run_for(2)
        self.assertIn('3 times', str(self.gate('cn1')))
        self.run_for(1000)
        self.assertEqual([], self.gate('cn1'))


class UnpluggedTest(base.CloudTestCase):
    """A nova-compute whose heartbeat was disabled goes on reporting to Nova."""

    settings = monitoring.Settings(graces={message.SERVICE: 30.0})

    def reasons(self, *, updated: float, up: bool = True) -> str:
        """Return the reasons that hold back the recoveries of a host.

        :param updated: seconds since nova-compute has reported to Nova
        """
        return str(gates.Gates((gates.Reporting(),)).reasons(self.monitor.facts(
            'cn1', {'up': up, 'updated': self.clock.wall() - updated})))

    def leave(self) -> None:
        """Have a nova-compute end in good order, which does not beat when it is back."""
        self.nodes['cn1'].alive = False
        self.monitor.heard(self.nodes['cn1'].beat(leaving=True, goodbye=message.SERVICE))

    def test_host_that_reports_to_nova_is_not_taken_for_dead(self) -> None:
        self.leave()
        self.run_for(40.0)
        self.assertEqual({'cn1'}, self.suspected())
        self.assertIn('has reported to Nova', self.reasons(updated=5.0))
        # It has died since.
        self.assertEqual('[]', self.reasons(updated=5.0, up=False))

    def test_host_without_heartbeat_needs_the_word_of_an_operator(self) -> None:
        self.leave()
        self.run_for(320.0)
        self.assertIn('its servers are not protected', self.reasons(updated=5.0, up=False))
        self.monitor.word('cn1', model.SUSPECT)
        self.assertEqual('[]', self.reasons(updated=5.0, up=False))
        self.monitor.word('cn1', None)
        # Its heartbeat was enabled again, and it dies.
        self.nodes['cn1'].alive = True
        self.run_for(2.0)
        self.nodes['cn1'].alive = False
        self.run_for(5.0)
        self.assertEqual('[]', self.reasons(updated=1.0))

    def test_host_that_no_engine_has_heard_since_its_start_is_not_taken_for_dead(self) -> None:
        self.monitor = monitor.Monitor(self.clock, self.witness, self.settings)
        self.monitor.expect(['cn1'])
        self.nodes['cn1'].alive = False
        self.run_for(60.0)
        self.assertEqual({'cn1'}, self.suspected())
        self.assertIn('has reported to Nova', self.reasons(updated=5.0))
        self.assertEqual('[]', self.reasons(updated=70.0))

    def test_engine_that_starts_waits_for_reports_of_a_host_that_it_has_not_heard(self) -> None:
        self.monitor = monitor.Monitor(self.clock, self.witness, self.settings)
        self.monitor.expect(['cn1'])
        self.nodes['cn1'].alive = False
        began = self.clock.wall()
        for _ in range(6):
            self.run_for(5.0)
            # It reports every ten seconds, and the latest report is as old as possible.
            seconds = self.clock.wall() - began
            self.assertNotEqual('[]', self.reasons(updated=min(9.9, seconds)), seconds)
            self.assertEqual('[]', self.reasons(updated=9.9, up=False))
        # A host that died before the engine started has not reported since.
        self.assertEqual('[]', self.reasons(updated=31.0))

    def test_host_that_died_before_an_engine_started_waits_for_one_report(self) -> None:
        self.monitor = monitor.Monitor(self.clock, self.witness, self.settings)
        self.monitor.expect(['cn1'])
        self.nodes['cn1'].alive = False
        self.run_for(15.1)
        self.assertEqual('[]', self.reasons(updated=20.0))

    def test_host_without_heartbeat_is_not_taken_for_dead_when_an_engine_starts(self) -> None:
        self.monitor = monitor.Monitor(self.clock, self.witness, self.settings)
        self.monitor.expect(['cn1'])
        self.monitor.left('cn1', message.SERVICE, self.clock.wall() - 4000.0)
        self.nodes['cn1'].alive = False
        self.run_for(6.0)
        self.assertEqual({'cn1'}, self.suspected())
        self.assertIn('has reported to Nova', self.reasons(updated=8.0))
        # It has never been back.
        self.assertEqual('[]', self.reasons(updated=4000.0))

    def test_report_that_nova_has_noted_late_proves_nothing(self) -> None:
        self.nodes['cn1'].alive = False
        self.run_for(12.0)
        self.assertEqual('[]', self.reasons(updated=0.0))


class AnyOutageTest(base.CloudTestCase):
    """No outage of broker or engine makes a healthy host pass the gates."""

    hosts = 3

    @hypothesis.settings(max_examples=30,
                         suppress_health_check=[hypothesis.HealthCheck.differing_executors])
    @hypothesis.given(st.lists(st.tuples(st.sampled_from(('broker', 'frozen')),
                                         st.floats(0.05, 8.0), st.floats(0.05, 8.0)),
                               max_size=4))
    def test_gates_stay_closed_in_any_outage(
            self, outages: list[tuple[str, float, float]]) -> None:
        self.begin()
        for what, away, back in outages:
            setattr(self, what, what == 'frozen')
            self.run_for(away)
            setattr(self, what, what != 'frozen')
            self.run_for(back)
        self.assertEqual([], self.witness.names('suspected'))
