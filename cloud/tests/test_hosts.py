# SPDX-License-Identifier: Apache-2.0
"""Compute hosts: layout, configuration, networks, and how a host is stopped."""

import argparse
import configparser
import json
import pathlib
import re
import stat
import subprocess
import time
from typing import Any
from unittest import mock

import fixtures
import testtools

from cloud import ceph
from cloud import ceph_conf
from cloud import commands
from cloud import layout as ceph_layout
from cloud.hosts import cli
from cloud.hosts import conf
from cloud.hosts import fabric
from cloud.hosts import hosts
from cloud.hosts import layout as hosts_layout
from cloud.hosts import namespaces
from cloud.hosts import services
from cloud.openstack import credentials
from cloud.openstack import layout

_KEY = 'AQBAK2VmYTM1NRAAsecretsecretsecret=='


class _Base(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.cloud = layout.Layout(self.data)
        self.settings = layout.Settings(hosts=3)
        self.backends = self.cloud.own_backends(2)
        self.files = hosts_layout.Layout(self.cloud, self.settings, 2)

    def make_ceph(self) -> None:
        """Create a cluster's files, and those of the users of the back ends."""
        self.cloud.ceph.mkdir()
        ceph_layout.Layout(self.cloud.ceph).save(ceph_layout.Settings(
            port=self.settings.ceph_port, host=self.settings.storage_host))
        for backend in self.backends:
            keyring = self.cloud.ceph / f'client.{backend.user}.keyring'
            keyring.write_text(f'[client.{backend.user}]\n\tkey = {_KEY}\n\tcaps mon = "x"\n')
            pathlib.Path(backend.conf).write_text(
                f'[global]\nfsid = f\n\n[client]\nkeyring = {keyring}\nlog file =\n')

    def write(self, settings: layout.Settings | None = None) -> conf.Writer:
        self.make_ceph()
        credentials.create(self.cloud)
        files = hosts_layout.Layout(self.cloud, settings or self.settings, 2)
        writer = conf.Writer(files, credentials.load(self.cloud), self.backends, 'qemu')
        writer.write()
        return writer


class LayoutTest(_Base):

    def test_each_host_has_addresses_of_its_own(self) -> None:
        seen = {self.settings.host, self.settings.storage_host}
        for number in range(1, layout.MAX_HOSTS + 1):
            addresses = hosts_layout.Layout(self.cloud, self.settings, number).addresses
            self.assertEqual({'control', 'storage'}, set(addresses))
            self.assertEqual(self.settings.control, addresses['control'].network)
            self.assertEqual(self.settings.storage, addresses['storage'].network)
            seen |= {str(address.ip) for address in addresses.values()}
        self.assertEqual(2 + 2 * layout.MAX_HOSTS, len(seen))

    def test_host_keeps_its_identity(self) -> None:
        again = hosts_layout.Layout(self.cloud, self.settings, 2)
        other = hosts_layout.Layout(self.cloud, self.settings, 3)
        self.assertEqual(self.files.uuid, again.uuid)
        self.assertEqual(self.files.ethernet, again.ethernet)
        self.assertEqual(6, len({*self.files.ethernet.values(), *other.ethernet.values()}))
        self.assertNotEqual(self.files.uuid, other.uuid)
        self.assertEqual(['cn2', 'cn3'], [self.files.name, other.name])


class ConfTest(_Base):

    def read(self, path: pathlib.Path) -> configparser.ConfigParser:
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.read_string(path.read_text())
        return parser

    def test_nova_uses_the_plug_in_and_the_control_network(self) -> None:
        self.write()
        nova = self.read(self.files.nova_conf)
        control = str(self.files.addresses['control'].ip)
        self.assertEqual('cn2', nova['DEFAULT']['host'])
        self.assertEqual(control, nova['DEFAULT']['my_ip'])
        self.assertEqual('specreds.SpeculativeLibvirtDriver', nova['DEFAULT']['compute_driver'])
        self.assertEqual(control, nova['libvirt']['live_migration_inbound_addr'])
        self.assertEqual('qemu', nova['libvirt']['virt_type'])
        self.assertEqual(conf.OVSDB, nova['os_vif_ovs']['ovsdb_connection'])
        self.assertIn(str(self.files.nova_conf), nova['nova_sys_admin']['helper_command'])
        # A compute host has no business with the databases.
        self.assertNotIn('database', nova)
        self.assertNotIn('api_database', nova)

    def test_plain_cloud_uses_novas_own_driver(self) -> None:
        self.write(layout.Settings(hosts=3, plain=True))
        self.assertEqual('libvirt.LibvirtDriver',
                         self.read(self.files.nova_conf)['DEFAULT']['compute_driver'])

    def test_agent_uses_user_space_bridges(self) -> None:
        self.write()
        agent = self.read(self.files.neutron_conf)
        self.assertEqual('netdev', agent['ovs']['datapath_type'])
        self.assertEqual('physnet1:br-ph', agent['ovs']['bridge_mappings'])
        self.assertEqual('dhcp', agent['agent']['extensions'])
        self.assertEqual('openvswitch', agent['securitygroup']['firewall_driver'])

    def test_agent_uses_the_chosen_firewall(self) -> None:
        self.write(layout.Settings(hosts=3, firewall='iptables_hybrid'))
        group = self.read(self.files.neutron_conf)['securitygroup']
        self.assertEqual(('iptables_hybrid', 'false'),
                         (group['firewall_driver'], group['enable_ipset']))

    def test_ovn_wires_ports_through_its_own_controller(self) -> None:
        settings = layout.Settings(hosts=3, network='ovn')
        files = hosts_layout.Layout(self.cloud, settings, 2)
        programs = services.programs(files)
        self.assertIn(services.CONTROLLER, programs)
        self.assertNotIn(services.AGENT, programs)
        self.assertIn(services.agent(settings), programs)
        words = conf.ovn(files)
        self.assertIn(f'external_ids:ovn-remote="tcp:{settings.host}:{settings.southbound_port}"',
                      words)
        self.assertIn('external_ids:ovn-bridge-mappings="physnet1:br-ph"', words)
        self.assertEqual([], conf.ovn(self.files))

    def test_disks_of_servers_may_be_in_rbd(self) -> None:
        self.write(layout.Settings(hosts=3, disks='rbd'))
        libvirt = self.read(self.files.nova_conf)['libvirt']
        self.assertEqual(('rbd', 'vms'), (libvirt['images_type'], libvirt['images_rbd_pool']))
        self.assertNotIn('specreds', self.read(self.files.nova_conf))

    def test_disks_of_servers_in_rbd_may_have_backups(self) -> None:
        self.write(layout.Settings(hosts=3, disks='rbd-backups'))
        nova_conf = self.read(self.files.nova_conf)
        self.assertEqual(('rbd', 'true'), (nova_conf['libvirt']['images_type'],
                                           nova_conf['specreds']['server_disk_backups']))

    def test_agents_route_on_each_host_where_routers_are_distributed(self) -> None:
        self.assertNotIn(services.ROUTERS, services.programs(self.files))
        settings = layout.Settings(hosts=3, network='dvr')
        self.write(settings)
        agents = self.read(self.files.neutron_conf)
        self.assertEqual('dvr', agents['DEFAULT']['agent_mode'])
        self.assertEqual('true', agents['agent']['enable_distributed_routing'])
        self.assertEqual('true', agents['agent']['l2_population'])
        self.assertEqual('vxlan', agents['agent']['tunnel_types'])
        self.assertEqual('true', self.read(self.files.nova_conf)['os_vif_ovs']['isolate_vif'])
        self.assertEqual('10.76.0.12', agents['ovs']['local_ip'])
        self.assertIn(services.ROUTERS, services.programs(
            hosts_layout.Layout(self.cloud, settings, 2)))

    def test_secrets_are_in_private_files_only(self) -> None:
        self.write()
        holders = {path for path in self.files.root.rglob('*') if path.is_file()
                   and _KEY in path.read_text()}
        self.assertEqual({f'{backend.secret(self.settings)}.base64' for backend in self.backends}
                         | {f'ceph.client.{backend.user}.keyring' for backend in self.backends},
                         {path.name for path in holders})
        for path in (*holders, self.files.nova_conf, self.files.neutron_conf):
            self.assertEqual(0o600, stat.S_IMODE(path.stat().st_mode), str(path))

    def test_each_back_end_has_a_secret(self) -> None:
        self.write()
        secrets = self.files.etc / 'libvirt' / 'secrets'
        for backend in self.backends:
            uuid = backend.secret(self.settings)
            self.assertIn(f'<uuid>{uuid}</uuid>', (secrets / f'{uuid}.xml').read_text())
            self.assertEqual(_KEY, (secrets / f'{uuid}.base64').read_text())

    def test_clients_of_ceph_have_its_address(self) -> None:
        self.write()
        ceph_client = self.read(self.files.etc / 'ceph' / 'ceph.conf')
        self.assertIn(self.settings.storage_host, ceph_client['global']['mon host'])
        self.assertEqual('/etc/ceph/ceph.$name.keyring', ceph_client['client']['keyring'])

    def test_libvirt_listens_on_the_control_network(self) -> None:
        self.write()
        text = (self.files.etc / 'libvirt' / 'libvirtd.conf').read_text()
        self.assertIn(f'listen_addr = "{self.files.addresses["control"].ip}"', text)
        self.assertIn(f'host_uuid = "{self.files.uuid}"', text)

    def test_programs_are_not_restarted(self) -> None:
        self.write()
        supervisor = self.read(self.files.supervisor_conf)
        programs = [name for name in supervisor.sections() if name.startswith('program:')]
        self.assertEqual([f'program:{name}' for name in services.programs(self.files)], programs)
        for name in programs:
            self.assertEqual(('false', '0'), (supervisor[name]['autorestart'],
                                              supervisor[name]['startretries']))

    def test_host_has_its_own_directories(self) -> None:
        writer = self.write()
        init = writer.init()
        mounts = {target: source for source, target in init['mounts']}  # type: ignore
        for target in ('/etc/libvirt', '/var/lib/libvirt', '/etc/ceph', '/etc/openvswitch'):
            self.assertTrue(pathlib.Path(mounts[target]).is_dir(), target)
            self.assertIn(self.files.root, pathlib.Path(mounts[target]).parents)
        self.assertEqual({'tenant', 'control', 'storage'}, set(init['addresses']))  # type: ignore
        self.assertIn('cn3', self.files.known_hosts.read_text())

    def test_key_is_read_from_the_section_of_the_user(self) -> None:
        keyring = self.data / 'ceph.client.u.keyring'
        keyring.write_text(f'[client.u]\nkey={_KEY}\n')
        config = self.data / 'c'
        config.write_text('[client]\nkeyring = /nowhere\n[client.u]\n'
                          f'keyring = {self.data}/ceph.$name.keyring\n')
        self.assertEqual(_KEY, conf.key_of(layout.Backend('b', 'p', 'u', str(config))))

    def test_missing_key_is_an_error(self) -> None:
        config = self.data / 'c'
        for text in ('[global]\n', '[client]\nkeyring = /nowhere\n', 'no section'):
            config.write_text(text)
            error = self.assertRaises(commands.CloudError, conf.key_of,
                                      layout.Backend('b', 'p', 'u', str(config)))
            self.assertIn('back end b: the key of client.u', str(error))

    def test_missing_cluster_is_an_error(self) -> None:
        self.make_ceph()
        ceph_layout.Layout(self.cloud.ceph).settings.unlink()
        credentials.create(self.cloud)
        writer = conf.Writer(self.files, credentials.load(self.cloud), self.backends, 'kvm')
        self.assertRaisesRegex(commands.CloudError, 'no cluster', writer.write)


class CephAddressTest(testtools.TestCase):

    def test_daemons_and_clients_have_the_address(self) -> None:
        data = self.useFixture(fixtures.TempDir()).path
        cluster = ceph.Ceph(data, address='198.18.5.129')
        daemon = ceph_conf.daemon(cluster.files, cluster.settings)
        self.assertIn('public addr = 198.18.5.129\n', daemon)
        self.assertIn('[v2:198.18.5.129:', ceph_conf.client(cluster.files, cluster.settings, 'c'))

    def test_default_is_the_loopback_address(self) -> None:
        cluster = ceph.Ceph(self.useFixture(fixtures.TempDir()).path)
        self.assertEqual('127.0.0.1', cluster.settings.address)

    def test_address_and_ipv6_exclude_each_other(self) -> None:
        self.assertRaisesRegex(commands.CloudError, 'choose one', ceph.Ceph, 'x',
                               address='198.18.5.129', ipv6=True)


class FabricTest(_Base):

    def setUp(self) -> None:
        super().setUp()
        self.calls: list[list[str]] = []
        self.links = '[]'
        self.useFixture(fixtures.MockPatch('cloud.commands.run', self._run))
        self.useFixture(fixtures.MockPatch('subprocess.run', self._try))
        self.root = self.useFixture(fixtures.MockPatch('os.geteuid', return_value=0)).mock
        self.settings = layout.Settings(port=65000, hosts=3)
        self.fabric = fabric.Fabric(self.settings)

    def _run(self, argv: list[str], *_args: Any, **_options: Any) -> str:
        self.calls.append(argv)
        return self.links if '-j' in argv else ''

    def _try(self, argv: list[str], **options: Any) -> 'subprocess.CompletedProcess[str]':
        self.calls.append([*argv, options.get('input', '')])
        return subprocess.CompletedProcess(argv, 1 if '-j' in argv else 0, '', '')

    def test_names_of_devices_are_short_enough(self) -> None:
        self.fabric.up()
        self.fabric.attach('cn8', 4711, self.files.ethernet)
        names = [words[words.index(kind) + 1] for words in self.calls
                 for kind in ('add', 'name') if kind in words and 'link' in words]
        self.assertIn('cn8-control', names)
        self.assertIn('sr65000-c', names)
        self.assertEqual([], [name for name in names if len(name) > 15])

    def test_packets_from_other_interfaces_are_dropped(self) -> None:
        self.fabric.up()
        [rules] = [words[-1] for words in self.calls if words[:3] == ['nft', '-f', '-']]
        for network in (self.settings.control, self.settings.storage):
            self.assertIn(str(network), rules)
        self.assertRegex(rules, r'iifname != \{ "lo", "sr65000-c", "sr65000-s" \} drop')

    def test_addresses_are_added_last(self) -> None:
        self.fabric.up()
        words = self.calls[-1]
        self.assertEqual(['address', 'add', f'{self.settings.storage_host}/25', 'dev',
                          'sr65000-s'], words[1:])

    def test_only_root_creates_networks(self) -> None:
        self.root.return_value = 1000
        self.assertRaisesRegex(commands.CloudError, 'only root', self.fabric.up)

    def test_cut_and_heal_set_links_down_and_up(self) -> None:
        self.fabric.cut('cn1', ['storage'])
        self.fabric.heal('cn1', ['storage', 'tenant'])
        self.assertEqual([['cn1-storage', 'down'], ['cn1-storage', 'up'], ['cn1-tenant', 'up']],
                         [words[-2:] for words in self.calls])

    def test_cuts_are_the_links_that_are_down(self) -> None:
        self.links = json.dumps([{'ifname': 'cn1-storage', 'flags': ['BROADCAST']},
                                 {'ifname': 'cn1-tenant', 'flags': ['UP', 'LOWER_UP']},
                                 {'ifname': 'cn2-control', 'flags': []}])
        self.assertEqual(['storage'], self.fabric.cuts('cn1'))
        self.assertEqual([], self.fabric.cuts('cn3'))


class MachineTest(testtools.TestCase):
    """Without control groups, and with a host that is one process."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.MockPatch('cloud.hosts.namespaces._control_groups',
                                           return_value=None))
        self.process = subprocess.Popen(['sleep', '1000'])
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        self.pid = self.process.pid
        self.useFixture(fixtures.MockPatch('cloud.hosts.namespaces.members',
                                           return_value=[self.pid]))
        self.machine = namespaces.Machine('x')

    def test_frozen_machine_can_be_thawed(self) -> None:
        self.assertFalse(self.machine.frozen(self.pid))
        self.machine.freeze(self.pid)
        self.assertTrue(self.machine.frozen(self.pid))
        self.machine.thaw(self.pid)
        deadline = time.monotonic() + 10
        while self.machine.frozen(self.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(self.machine.frozen(self.pid))

    def test_frozen_machine_can_be_killed(self) -> None:
        began = namespaces.started(self.pid)
        self.assertTrue(began)
        self.machine.freeze(self.pid)
        self.machine.kill(self.pid)
        self.assertEqual('', namespaces.started(self.pid))
        self.assertEqual(-9, self.process.wait())

    def test_process_that_does_not_stop_is_an_error(self) -> None:
        self.useFixture(fixtures.MockPatch('cloud.hosts.namespaces._TIMEOUT', 0.05))
        with mock.patch('cloud.hosts.namespaces._state', return_value='D'):
            self.assertRaisesRegex(commands.CloudError, 'do not stop', self.machine.freeze,
                                   self.pid)


class HostTest(_Base):

    def setUp(self) -> None:
        super().setUp()
        self.hosts = hosts.Hosts(self.cloud, self.settings, {}, self.backends)

    def test_unknown_host_is_an_error(self) -> None:
        self.assertRaisesRegex(commands.CloudError, 'there are: cn1, cn2, cn3', self.hosts.host,
                               'cn4')

    def test_host_that_is_off_refuses_operations(self) -> None:
        host = self.hosts.host('cn1')
        self.assertEqual('off', host.state)
        for action in (host.hang, host.resume, host.cut, host.domains):
            self.assertRaisesRegex(commands.CloudError, 'cn1 is off', action)

    def test_reused_process_id_is_not_the_host(self) -> None:
        host = self.hosts.host('cn1')
        host.files.root.mkdir(parents=True)
        host.files.record.write_text(json.dumps({'pid': 1, 'started': 'long ago'}))
        self.assertEqual(0, host.pid)

    def test_each_program_of_a_host_has_a_log(self) -> None:
        log = self.hosts.logs['cn3/nova-compute']
        self.assertEqual(self.hosts.host('cn3').files.log, log.parent)
        self.assertEqual(3 * len(services.programs(self.files)), len(self.hosts.logs))

    def test_hosts_that_are_off_are_not_good(self) -> None:
        self.assertEqual([('cn1', False, 'off'), ('cn2', False, 'off'), ('cn3', False, 'off')],
                         [(check.name, check.good, check.words)
                          for check in self.hosts.status()])
        self.assertEqual([], self.hosts.running())


class CliTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.parser = argparse.ArgumentParser()
        shared = argparse.ArgumentParser(add_help=False)
        cli.add(self.parser.add_subparsers(dest='action'), shared)
        self.hosts = mock.Mock()
        self.printed: list[str] = []

    def run_command(self, *words: str) -> int:
        return cli.run(self.hosts, self.parser.parse_args(['host', *words]), self.printed.append)

    def test_several_hosts_are_killed(self) -> None:
        hosts_by_name = {name: mock.Mock(state='off') for name in ('cn1', 'cn2')}
        for name, host in hosts_by_name.items():
            host.name = name
        self.hosts.host = hosts_by_name.__getitem__
        self.assertEqual(0, self.run_command('kill', 'cn1', 'cn2'))
        for host in hosts_by_name.values():
            host.kill.assert_called_once_with()
        self.assertEqual(['cn1 is off', 'cn2 is off'], self.printed)

    def test_cut_names_the_network(self) -> None:
        self.hosts.host.return_value.cuts = ['storage']
        self.run_command('cut', 'cn1', '--storage')
        self.hosts.host.return_value.cut.assert_called_once_with(
            control=False, storage=True, tenant=False)
        self.assertRegex(self.printed[0], 'cut off from storage')

    def test_cut_needs_a_network(self) -> None:
        self.assertRaisesRegex(commands.CloudError, 'say what to cut', self.run_command, 'cut',
                               'cn1')

    def test_heal_without_a_network_heals_all(self) -> None:
        self.hosts.host.return_value.cuts = []
        self.run_command('heal', 'cn1')
        self.hosts.host.return_value.heal.assert_called_once_with(
            control=False, storage=False, tenant=False)
        self.assertRegex(self.printed[0], re.compile('cut off from nothing'))

    def test_client_needs_a_program(self) -> None:
        self.assertRaisesRegex(commands.CloudError, 'say what to run', self.run_command,
                               'client')

    def test_arguments_of_a_program_are_passed_on(self) -> None:
        self.hosts.tenant.argv.return_value = ['ip', 'netns']
        with mock.patch('os.execvp', side_effect=SystemExit) as execute:
            self.assertRaises(SystemExit, self.run_command, 'client', '--', 'ping', '-c', '1')
        self.hosts.tenant.argv.assert_called_once_with(['ping', '-c', '1'])
        execute.assert_called_once_with('ip', ['ip', 'netns'])
