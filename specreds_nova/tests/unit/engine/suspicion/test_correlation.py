# SPDX-License-Identifier: Apache-2.0
"""Hosts that fall silent together, and sites that are powered up."""

from oslo_config import cfg

from specreds_nova.engine.suspicion import conf as detection_conf
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import monitor
from specreds_nova.engine.suspicion import settings as monitoring
from specreds_nova.tests.unit.engine.suspicion import base


class GroupsTest(base.CloudTestCase):
    """Two racks of three hosts, and a host without any."""

    hosts = 7

    def begin(self) -> None:
        super().begin()
        self.monitor.place({f'cn{number}': ('aggregate rack1' if number < 4 else 'aggregate rack2',
                                            'availability zone nova') for number in range(1, 7)})
        self.monitor.place({'cn7': ('availability zone nova',)})
        self.gates = gates.Gates((gates.Correlated(0.5),))

    def held(self, host: str) -> str:
        """Return the reasons that hold back the recoveries of a host."""
        return str(self.gates.reasons(self.monitor.facts(host)))

    def test_rack_that_falls_silent_gets_time_to_return(self) -> None:
        for name in ('cn1', 'cn2'):
            self.nodes[name].alive = False
        self.run_for(2.0)
        self.assertIn('2 of 3 hosts of aggregate rack1', self.held('cn1'))
        self.run_for(4.0)
        self.assertEqual('[]', self.held('cn1'))

    def test_single_host_of_a_rack_is_not_held_back(self) -> None:
        self.nodes['cn1'].alive = False
        self.run_for(2.0)
        self.assertEqual('[]', self.held('cn1'))

    def test_death_in_a_rack_with_a_stall_is_not_held_back(self) -> None:
        self.nodes['cn2'].more = {'storage_age': 6.0}
        self.run_for(1.0)
        self.nodes['cn1'].alive = False
        self.run_for(2.0)
        self.assertEqual('[]', self.held('cn1'))

    def test_rack_that_loses_its_storage_gets_time_but_not_for_ever(self) -> None:
        for age in (6.0, 9.0, 10.5, 60.0):
            for name in ('cn1', 'cn2'):
                self.nodes[name].more = {'storage_age': age}
            self.run_for(1.0)
            self.assertLessEqual({'cn1', 'cn2'}, self.suspected())
            self.assertEqual(age >= 10.0, self.held('cn1') == '[]', str(age))

    def test_hosts_of_several_racks_are_not_held_back(self) -> None:
        for name in ('cn1', 'cn4'):
            self.nodes[name].alive = False
        self.run_for(2.0)
        self.assertEqual('[]', self.held('cn1'))

    def test_group_of_all_hosts_means_nothing(self) -> None:
        self.monitor.place(dict.fromkeys(self.nodes, ('availability zone nova',)))
        for name in ('cn1', 'cn2', 'cn3', 'cn4'):
            self.nodes[name].alive = False
        self.run_for(2.0)
        self.assertEqual('[]', self.held('cn1'))


class ForgedHostsTest(base.CloudTestCase):
    """Somebody on the broker sends beats of hosts that do not exist, and ends them together."""

    def begin(self) -> None:
        super().begin()
        self.real = frozenset(self.nodes)
        for number in range(9):
            name = f'forged{number}'
            self.nodes[name] = base.Node(name, 0.01 * number, more={'uptime': 10.0})
        self.run_for(1.0)
        self.gates = detection_conf.host_gates(_options())

    def end(self, *names: str) -> None:
        """Have hosts fall silent, and wait until they are suspected."""
        for name in names:
            self.nodes[name].alive = False
        self.run_for(2.0)
        self.assertLessEqual({*names}, self.suspected())

    def held(self, host: str) -> str:
        """Return the reasons that hold back the recoveries of a host."""
        return str(self.gates.reasons(self.monitor.facts(host)))

    def test_silence_of_hosts_that_nova_does_not_list_shuts_no_gate(self) -> None:
        self.monitor.listed(self.real)
        self.end('cn1', *(name for name in self.nodes if name not in self.real))
        self.assertEqual('[]', self.held('cn1'))

    def test_boots_of_hosts_that_nova_does_not_list_shut_no_gate(self) -> None:
        self.end('cn1')
        for node in self.nodes.values():
            node.more = {'uptime': 0.5} if node.name not in self.real else {}
        self.run_for(0.5)
        self.monitor.listed(self.real)
        self.assertEqual('[]', self.held('cn1'))

    def test_hosts_that_nova_does_not_list_open_no_gate(self) -> None:
        self.monitor.listed(self.real)
        self.end('cn1', 'cn2', 'cn3')
        self.assertIn('3 of 5 hosts are silent', self.held('cn1'))

    def test_hosts_that_nova_does_not_list_are_not_healthy(self) -> None:
        self.monitor.listed(self.real)
        self.assertEqual(self.real, {*self.monitor.healthy()})

    def test_all_hosts_count_before_the_first_answer_of_nova(self) -> None:
        self.monitor.listed(())
        self.end('cn1', *(name for name in self.nodes if name not in self.real))
        self.assertIn('10 of 14 hosts are silent', self.held('cn1'))


class BrokersTest(base.CloudTestCase):
    """A cluster of two broker nodes."""

    hosts = 6

    def begin(self) -> None:
        super().begin()
        self.own = 'b2:5672'
        self.monitor._own_broker = lambda: self.own
        for number, node in enumerate(self.nodes.values()):
            node.more = {'uptime': 9999.0, 'broker': f'b{number % 2 + 1}:5672'}
        self.run_for(1.0)
        self.gates = gates.Gates((gates.Correlated(0.5),))

    def test_hosts_of_a_lost_broker_node_get_time_to_reconnect(self) -> None:
        for name in ('cn1', 'cn3', 'cn5'):
            self.nodes[name].alive = False
        self.run_for(2.0)
        reasons = self.gates.reasons(self.monitor.facts('cn1'))
        self.assertIn('3 of 3 hosts of broker node b1:5672', str(reasons))
        self.run_for(4.0)
        self.assertEqual([], self.gates.reasons(self.monitor.facts('cn1')))

    def test_broker_node_of_the_engine_itself_is_not_the_cause(self) -> None:
        self.own = 'b1:5672'
        for name in ('cn1', 'cn3', 'cn5'):
            self.nodes[name].alive = False
        self.run_for(2.0)
        self.assertEqual([], self.gates.reasons(self.monitor.facts('cn1')))


class PowerUpTest(base.CloudTestCase):
    """A site that is powered up while the engines run."""

    hosts = 6
    settings = monitoring.Settings(power_up_grace=60.0)

    def begin(self) -> None:
        super().begin()
        self.gates = gates.Gates((gates.PowerUp(),))

    def power_down(self) -> None:
        for node in self.nodes.values():
            node.alive = False
        self.run_for(20.0)

    def boot(self, *names: str) -> None:
        """Boot hosts that have been up for 10 s when they are heard."""
        for name in names:
            self.nodes[name].alive = True
            self.nodes[name].boot = 'b2'
            self.nodes[name].number = 0
            self.nodes[name].more = {'uptime': 10.0}
        self.run_for(0.3)
        for name in names:
            self.nodes[name].more = {}
        self.run_for(1.0)

    def held(self, host: str) -> str:
        return str(self.gates.reasons(self.monitor.facts(host)))

    def test_second_half_of_the_hosts_gets_time_to_boot(self) -> None:
        self.power_down()
        self.boot('cn1', 'cn2', 'cn3')
        self.assertIn('most hosts have booted since cn4 was heard', self.held('cn4'))
        self.run_for(40.0)
        self.assertIn('most hosts', self.held('cn4'))
        self.run_for(10.0)
        self.assertEqual('[]', self.held('cn4'))

    def test_engine_that_starts_with_the_site_waits_too(self) -> None:
        self.monitor = monitor.Monitor(self.clock, self.witness, self.settings)
        self.monitor.expect(self.nodes)
        for node in self.nodes.values():
            node.alive = False
        self.boot('cn1', 'cn2', 'cn3', 'cn4')
        self.run_for(8.0)
        self.assertTrue(self.monitor.suspected('cn6'))
        self.assertIn('most hosts', self.held('cn6'))

    def test_engine_that_restarts_does_not_wait(self) -> None:
        for node in self.nodes.values():
            node.more = {'uptime': 5000.0}
        self.nodes['cn6'].alive = False
        self.monitor = monitor.Monitor(self.clock, self.witness, self.settings)
        self.monitor.expect(self.nodes)
        self.run_for(8.0)
        self.assertTrue(self.monitor.suspected('cn6'))
        self.assertEqual('[]', self.held('cn6'))

    def test_single_host_that_reboots_says_nothing_about_others(self) -> None:
        self.nodes['cn6'].alive = False
        self.nodes['cn1'].alive = False
        self.run_for(15.0)
        self.boot('cn1')
        self.assertEqual('[]', self.held('cn6'))

    def test_all_gates_hold_a_site_back_until_it_has_booted(self) -> None:
        self.gates = detection_conf.host_gates(_options())
        self.power_down()
        self.boot('cn1', 'cn2', 'cn3', 'cn4')
        self.assertNotEqual('[]', self.held('cn5'))
        self.boot('cn5', 'cn6')
        self.assertEqual(set(), self.suspected())


def _options() -> object:
    config = cfg.ConfigOpts()
    config.register_opts(detection_conf.OPTIONS, 'engine')
    config([])
    return config.engine
