# SPDX-License-Identifier: Apache-2.0
"""What a host's programs are configured with."""

import configparser
import json
import pathlib
import stat
from unittest import mock

from cloud import commands
from cloud import layout as ceph_layout
from cloud.hosts import conf
from cloud.hosts import layout as hosts_layout
from cloud.hosts import services
from cloud.openstack import credentials
from cloud.openstack import engine
from cloud.openstack import layout
from cloud.tests.hosts import base
from specreds_nova.beats import speaker
from specreds_nova.beats import voice


class ConfTest(base.HostsTestCase):

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

    def test_sentinel_has_the_key_that_engines_expect_of_its_host(self) -> None:
        self.write()
        passwords = credentials.load(self.cloud)
        engine.write(self.cloud, layout.Settings(hosts=3, engines=1), passwords)
        [master] = voice.read_keys(self.cloud.voice_keys, 1)
        self.assertEqual((voice.host_key(master, 'cn2'),), voice.read_keys(
            self.files.state / 'nova' / 'specreds' / speaker.KEY, 1))

    def test_plain_cloud_uses_novas_own_driver(self) -> None:
        self.write(layout.Settings(hosts=3, plain=True))
        self.assertEqual('libvirt.LibvirtDriver',
                         self.read(self.files.nova_conf)['DEFAULT']['compute_driver'])
        self.assertFalse((self.files.state / 'nova' / 'specreds' / speaker.KEY).exists())

    def test_agent_uses_user_space_bridges(self) -> None:
        self.write()
        agent = self.read(self.files.neutron_conf)
        self.assertEqual('netdev', agent['ovs']['datapath_type'])
        self.assertEqual('physnet1:br-ph', agent['ovs']['bridge_mappings'])
        self.assertEqual('dhcp,qos', agent['agent']['extensions'])
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
        self.assertIn('external_ids:ovn-encap-ip="10.76.0.12"', words)
        self.assertIn('external_ids:ovn-cms-options="enable-chassis-as-gw"', words)
        self.assertEqual([], conf.ovn(self.files))

    def test_disks_of_servers_may_be_in_rbd(self) -> None:
        self.write(layout.Settings(hosts=3, disks='rbd'))
        libvirt = self.read(self.files.nova_conf)['libvirt']
        self.assertEqual(('rbd', 'vms'), (libvirt['images_type'], libvirt['images_rbd_pool']))
        self.assertNotIn('specreds', self.read(self.files.nova_conf))

    def test_volumes_have_novas_own_cache_mode_unless_one_is_chosen(self) -> None:
        self.write()
        self.assertNotIn('disk_cachemodes', self.read(self.files.nova_conf)['libvirt'])

    def test_volumes_may_have_a_write_back_cache(self) -> None:
        self.write(layout.Settings(hosts=3, cachemodes='network=writeback'))
        self.assertEqual('network=writeback',
                         self.read(self.files.nova_conf)['libvirt']['disk_cachemodes'])

    def test_hosts_have_neither_dedicated_cpus_nor_huge_pages(self) -> None:
        self.write()
        self.assertNotIn('cpu_dedicated_set', self.read(self.files.nova_conf)['compute'])
        self.assertIsNone(json.loads(self.files.init_conf.read_text())['huge_pages'])

    @mock.patch('os.cpu_count', return_value=4)
    def test_hosts_may_have_dedicated_cpus_and_huge_pages(self, _count: mock.Mock) -> None:
        self.write(layout.Settings(hosts=3, dedicated_cpus=True))
        compute = self.read(self.files.nova_conf)['compute']
        self.assertEqual(('0', '1-3'), (compute['cpu_shared_set'], compute['cpu_dedicated_set']))
        self.assertEqual(conf.HUGE_PAGES,
                         json.loads(self.files.init_conf.read_text())['huge_pages'])
        self.assertIn(f'hugetlbfs_mount = "{conf.HUGE_PAGES}"',
                      (self.files.etc / 'libvirt' / 'qemu.conf').read_text())

    @mock.patch('os.cpu_count', return_value=1)
    def test_dedicated_cpus_need_two(self, _count: mock.Mock) -> None:
        self.assertRaises(commands.CloudError, self.write,
                          layout.Settings(hosts=3, dedicated_cpus=True))

    def test_host_in_the_second_cell_has_a_broker_of_its_own(self) -> None:
        self.write(layout.Settings(hosts=3, cells=2))
        nova_conf = self.read(self.files.nova_conf)
        heartbeats = nova_conf['specreds']['heartbeat_transport_url']
        self.assertEqual(f'{heartbeats}cell2', nova_conf['DEFAULT']['transport_url'])

    def test_host_sends_heartbeats_to_the_broker_of_the_only_cell(self) -> None:
        self.write()
        self.assertNotIn('specreds', self.read(self.files.nova_conf))

    def test_change_of_novas_configuration_is_reported(self) -> None:
        writer = self.write()
        self.assertFalse(writer.write())
        self.files.nova_conf.write_text('')
        self.assertTrue(writer.write())

    def test_unknown_cache_modes_are_refused(self) -> None:
        layout.Settings(cachemodes='file=directsync,network=writeback').check(())
        for modes in ('writeback', 'network=fast', 'network=unsafe', 'network=none,'):
            self.assertRaises(commands.CloudError, layout.Settings(cachemodes=modes).check, ())

    def test_agents_route_on_each_host_where_routers_are_distributed(self) -> None:
        self.assertNotIn(services.ROUTERS, services.programs(self.files))
        settings = layout.Settings(hosts=3, network='dvr')
        self.write(settings)
        agents = self.read(self.files.neutron_conf)
        self.assertEqual('dvr_snat', agents['DEFAULT']['agent_mode'])
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
                   and base.KEY in path.read_text()}
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
            self.assertEqual(base.KEY, (secrets / f'{uuid}.base64').read_text())

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

    def test_only_the_switch_is_restarted(self) -> None:
        self.write()
        supervisor = self.read(self.files.supervisor_conf)
        programs = [name for name in supervisor.sections() if name.startswith('program:')]
        self.assertEqual([f'program:{name}' for name in services.programs(self.files)], programs)
        restarted = {name for name in programs
                     if supervisor[name]['autorestart'] != 'false'}
        self.assertEqual({f'program:{services.OVS}'}, restarted)
        self.assertEqual({'0'}, {supervisor[name]['startretries']
                                 for name in set(programs) - restarted})

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
        keyring.write_text(f'[client.u]\nkey={base.KEY}\n')
        config = self.data / 'c'
        config.write_text('[client]\nkeyring = /nowhere\n[client.u]\n'
                          f'keyring = {self.data}/ceph.$name.keyring\n')
        self.assertEqual(base.KEY, conf.key_of(layout.Backend('b', 'p', 'u', str(config))))

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
