# SPDX-License-Identifier: Apache-2.0
"""What each phase of DevStack does on which node, and what it refuses."""

import os
import pathlib
import re

import ddt
import fixtures
import testtools

from devstack.tests import stack
from specreds_nova.beats import speaker
from specreds_nova.beats import voice
from specreds_nova.host.box import plan as box_plan
from specreds_nova.sentinel import privileges

_COMPUTE = 'n-cpu,c-vol,q-agt,placement-client'
_SERVICES = {'specreds-engine', 'specreds-api', 'specreds-sentinel'}


class _Base(testtools.TestCase):

    def make(self, **localrc: str) -> stack.Stack:
        return stack.Stack(pathlib.Path(self.useFixture(fixtures.TempDir()).path), **localrc)

    def between(self, node: stack.Stack, phase: str) -> list[list[str]]:
        """What was called in a phase."""
        calls: list[list[str]] = []
        current = ''
        for call in node.calls:
            if call[0] == 'phase:':
                current = call[1]
            elif current == phase:
                calls.append(call)
        return calls


class AllInOneTest(_Base):

    def test_services_are_installed_started_stopped_and_cleaned(self) -> None:
        node = self.make(LIBVIRT_GROUP='libvirt')
        node.run(*stack.STACK)
        units = {service: node.drop_in(service) for service in _SERVICES}
        [master] = voice.read_keys(node.engine_conf.with_name('voice.keys'), 1)
        key = node.root / 'opt' / 'data' / 'nova' / 'specreds' / speaker.KEY
        host_key = key.read_text()
        node.run('unstack', 'clean')

        services, agent, mechanism, plugins = node.choices
        self.assertEqual(_SERVICES, services & _SERVICES)
        self.assertEqual(('openvswitch', 'openvswitch'), (agent, mechanism))
        self.assertLessEqual({'q-agt', 'q-dhcp', 'q-l3', 'q-meta'}, services)
        self.assertEqual([], [name for name in services
                              if name.startswith(('ovn', 'ovs', 'q-ovn'))])
        self.assertEqual(f'{stack.REPOSITORY}/tempest_plugin', plugins)

        self.assertEqual([], self.between(node, 'pre-install'))
        install, = (call for call in self.between(node, 'install') if call[0] == 'pip')
        self.assertEqual(['-e', str(stack.REPOSITORY)], install[-2:])
        database = [call for call in self.between(node, 'post-config')
                    if call[0] in ('mysql', 'specreds-engine-manage')]
        self.assertEqual(['CREATE DATABASE specreds CHARACTER SET utf8;', 'sync', 'DevStack'],
                         [call[-1] for call in database[1:]])

        # Both ends of the heartbeats by UDP have their keys.
        self.assertEqual(32, len(master))
        self.assertEqual(f'key of {os.uname().nodename}\n', host_key)
        self.assertFalse(key.exists())

        # The API answers before anybody looks whether all is well.
        extra = [call[0] for call in self.between(node, 'extra')]
        self.assertEqual(['curl', 'specreds-status'],
                         [name for name in extra if name in ('curl', 'specreds-status')])
        for service in _SERVICES:
            start = node.unit(service)['ExecStart'][0]
            self.assertTrue(start.startswith(
                f'{node.root}/bin/{"uwsgi" if service == "specreds-api" else service} '), start)
        self.assertEqual(['libvirt'], node.unit('specreds-sentinel')['Group'])
        self.assertEqual([f'OS_SPECREDS_CONFIG_FILE={node.engine_conf}'],
                         units['specreds-api']['Service']['Environment'])
        for service in ('specreds-engine', 'specreds-sentinel'):
            self.assertEqual(['always'], units[service]['Service']['Restart'])
            self.assertEqual((['notify'], ['30']), (units[service]['Service']['Type'],
                                                    units[service]['Service']['WatchdogSec']))
            self.assertEqual(['0'], units[service]['Unit']['StartLimitIntervalSec'])
        self.assertEqual([' '.join(privileges.REQUIRED)],
                         units['specreds-sentinel']['Service']['AmbientCapabilities'])
        self.assertNotIn('AmbientCapabilities', units['specreds-engine']['Service'])
        # A unit that runs already does not take up what it is told later.
        extra_calls = self.between(node, 'extra')
        first_start = next(i for i, call in enumerate(extra_calls) if 'start' in call)
        self.assertLess(next(i for i, call in enumerate(extra_calls)
                             if 'mkdir' in call and call[-1].endswith('sentinel.service.d')),
                        first_start)

        stopped = [call[-1] for call in self.between(node, 'unstack')
                   if call[:2] == ['systemctl', 'stop']]
        self.assertEqual([f'devstack@specreds-{name}.service'
                          for name in ('engine', 'api', 'sentinel')], stopped)
        self.assertFalse(node.engine_conf.parent.exists())
        self.assertEqual([{}] * 3, [node.drop_in(service) for service in _SERVICES])
        self.assertFalse((node.root / 'opt' / 'data' / 'specreds').exists())
        self.assertEqual([], list((node.etc / 'apache').iterdir()))

    def test_clean_removes_only_its_own_rule_of_apparmor(self) -> None:
        node = self.make()
        node.apparmor_rules.write_text('/opt/other r,\n')
        node.run(*stack.STACK)
        self.assertEqual(2, len(node.apparmor_rules.read_text().splitlines()))
        node.run('unstack', 'clean')
        self.assertEqual('/opt/other r,\n', node.apparmor_rules.read_text())


class VerificationTest(_Base):

    def make_failing(self, statuses: str, **localrc: str) -> stack.Stack:
        node = self.make(**localrc)
        (node.root / 'statuses').write_text(statuses)
        return node

    def test_failure_that_passes_by_is_looked_at_again(self) -> None:
        node = self.make_failing('2\n2\n')
        node.run(*stack.STACK)
        self.assertEqual(3, len(node.calls_of('specreds-status')))

    def test_warning_is_enough(self) -> None:
        node = self.make_failing('1\n2\n')
        node.run(*stack.STACK)
        self.assertEqual(1, len(node.calls_of('specreds-status')))

    def test_failure_that_stays_is_an_error(self) -> None:
        node = self.make_failing('2\n2\n', SPECREDS_VERIFY_TIMEOUT='0')
        error = self.assertRaises(stack.Failed, node.run, *stack.STACK)
        self.assertIn('specreds-status found what cannot work', str(error))
        self.assertEqual(1, len(node.calls_of('specreds-status')))


class UnstackTest(_Base):

    def stops(self, node: stack.Stack, phase: str) -> list[str]:
        return [call[-1] for call in self.between(node, phase)
                if call[:2] == ['systemctl', 'stop']]

    def test_engine_and_sentinel_stop_before_any_plug_in_is_unstacked(self) -> None:
        node = self.make()
        node.run(*stack.STACK)
        self.assertEqual([], self.stops(node, 'source'))
        node.run('unstack')
        self.assertEqual(['devstack@specreds-engine.service',
                          'devstack@specreds-sentinel.service'], self.stops(node, 'source'))

    def test_compute_node_has_only_a_sentinel_to_stop(self) -> None:
        node = self.make(ENABLED_SERVICES=_COMPUTE, REMOTE_CEPH='True')
        node.run('unstack')
        self.assertEqual(['devstack@specreds-sentinel.service'], self.stops(node, 'source'))

    def test_only_boxes_are_removed(self) -> None:
        node = self.make()
        node.run('unstack')
        calls = [call for call in self.between(node, 'unstack') if call[0] in ('ip', 'ovs-vsctl')]
        self.assertEqual([['ip', 'netns', 'delete', 'specreds-8f2d'],
                          ['ovs-vsctl', '--timeout=10', 'del-br', 'sb8f2d']],
                         [call for call in calls if {'delete', 'del-br'} & set(call)])
        self.assertEqual([['sudo', 'kill', '-KILL', '4711']], node.calls_of('kill'))
        self.assertEqual('specreds-8f2d', box_plan.namespace_of('8f2d'))
        self.assertEqual('sb8f2d', box_plan.bridge_of('8f2d'))

    def test_nodes_without_backups_have_no_boxes(self) -> None:
        node = self.make(ENABLED_SERVICES='c-vol,c-api')
        node.run('unstack')
        self.assertEqual([], node.calls_of('netns') + node.calls_of('ovs-vsctl'))


class DisabledTest(_Base):

    def test_disabled_plug_in_runs_and_configures_nothing(self) -> None:
        node = self.make(DISABLED_SERVICES='specreds', Q_AGENT='', VIRT_DRIVER='fake')
        node.run(*stack.STACK, 'unstack', 'clean')
        services, agent, _, plugins = node.choices
        self.assertEqual(set(), services & {*_SERVICES, 'specreds'})
        self.assertNotEqual('openvswitch', agent)
        self.assertNotIn('specreds', plugins)
        self.assertEqual({}, node.added(node.cinder_conf))
        # DevStack itself asks for addresses.
        self.assertEqual([], [call for call in node.calls if call[0] not in ('phase:', 'ip')])


class ComputeNodeTest(_Base):

    def test_compute_node_gets_only_the_sentinel_and_the_driver(self) -> None:
        node = self.make(ENABLED_SERVICES=_COMPUTE, REMOTE_CEPH='True')
        node.run(*stack.STACK)
        self.assertEqual({'specreds-sentinel'}, node.choices.services & _SERVICES)
        self.assertNotIn('q-l3', node.choices.services)
        self.assertEqual({}, node.unit('specreds-engine'))
        self.assertNotEqual({}, node.unit('specreds-sentinel'))
        self.assertFalse(node.engine_conf.exists())
        self.assertEqual(['key', 'host', os.uname().nodename],
                         node.calls_of('specreds-engine-manage')[0][-3:])
        conf = stack.read(node.nova_conf.with_name('nova-cpu.conf'))
        self.assertEqual('specreds.SpeculativeLibvirtDriver', conf['DEFAULT']['compute_driver'][0])
        # The Ceph, the catalogue and the database are somebody else's.
        self.assertEqual([], [call for call in node.calls
                              if call[0] in ('ceph', 'openstack', 'mysql')])


@ddt.ddt
class SampleTest(_Base):

    @ddt.data(('all-in-one', _SERVICES), ('controller', _SERVICES),
              ('compute', {'specreds-sentinel'}))
    @ddt.unpack
    def test_sample_enables_the_services_of_its_node(self, name: str, services: set[str]) -> None:
        text = (stack.REPOSITORY / 'devstack' / 'samples' / f'{name}.conf').read_text()
        node = self.make(sample=text.partition('[[local|localrc]]')[2])
        node.run('pre-install', 'post-config')
        self.assertEqual(services, node.choices.services & _SERVICES)
        self.assertEqual('openvswitch', node.choices.agent)
        # DevStack writes it where Cinder is, and these stand-ins do not.
        self.assertIs(name == 'compute', 'cinder' in stack.read(node.nova_conf))
        if 'specreds-engine' in services:
            self.assertIn(':secret@', stack.read(node.engine_conf)['database']['connection'][0])


class DocumentationTest(testtools.TestCase):

    def test_every_setting_is_documented(self) -> None:
        names = set(re.findall(r'^ *(SPECREDS_[A-Z_]+)=', (
            stack.REPOSITORY / 'devstack' / 'settings').read_text(), re.MULTILINE))
        text = (stack.REPOSITORY / 'doc' / 'source' / 'devstack.rst').read_text()
        self.assertIn('SPECREDS_CONF', names)
        self.assertEqual([], sorted(name for name in names if not re.search(rf'\b{name}\b', text)))


class ChoicesTest(_Base):

    def test_settings_of_the_user_reach_the_configuration_files(self) -> None:
        node = self.make(SPECREDS_PROTECT_BY_DEFAULT='False', SPECREDS_HEARTBEAT_INTERVAL='0.5',
                         SPECREDS_SETUP_CEPH='False', SPECREDS_VERIFY='False',
                         CELLSV2_SETUP='singleconductor',
                         SPECREDS_TEMPEST_DESTRUCTIVE='True',
                         SPECREDS_TEMPEST_KILL_COMMAND='ssh {host} sudo halt -f -p',
                         TEMPEST_PLUGINS='/opt/stack/other')
        node.run(*stack.STACK)
        nova = stack.read(node.nova_conf)['specreds']
        engine = stack.read(node.engine_conf)
        self.assertEqual(['False'], engine['engine']['protect_by_default'])
        self.assertEqual(['0.5'], nova['heartbeat_interval'])
        self.assertTrue(engine['DEFAULT']['transport_url'][0].endswith(':5672/'))
        self.assertEqual([], node.calls_of('ceph'))
        self.assertEqual([], node.calls_of('specreds-status'))
        tempest = stack.read(node.tempest_conf)['specreds']
        self.assertEqual(['ssh {host} sudo halt -f -p'], tempest['host_kill_command'])
        self.assertEqual(['True'], tempest['destructive'])
        self.assertEqual(f'/opt/stack/other {stack.REPOSITORY}/tempest_plugin',
                         node.choices.tempest_plugins)


class RefusalTest(_Base):

    def assert_refused(self, words: str, **localrc: str) -> None:
        node = self.make(**localrc)
        error = self.assertRaises(stack.Failed, node.run, 'pre-install', 'install')
        self.assertIn(words, str(error))
        self.assertEqual([], node.calls_of('pip'))

    def test_back_end_that_is_not_ceph_is_refused(self) -> None:
        self.assert_refused('enable devstack-plugin-ceph',
                            CINDER_ENABLED_BACKENDS='lvm:lvmdriver-1')

    def test_nova_without_a_key_to_the_volumes_is_refused(self) -> None:
        self.assert_refused('ENABLE_CEPH_NOVA=True', ENABLE_CEPH_NOVA='False')

    def test_other_hypervisor_than_libvirt_is_refused(self) -> None:
        self.assert_refused('VIRT_DRIVER=libvirt', VIRT_DRIVER='fake')

    def test_other_agent_is_refused(self) -> None:
        self.assert_refused('Open vSwitch or OVN', Q_AGENT='macvtap')
