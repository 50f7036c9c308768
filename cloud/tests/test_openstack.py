# SPDX-License-Identifier: Apache-2.0
"""The one-machine OpenStack: what it writes and refuses before it starts."""

import base64
import hashlib
import ipaddress
import json
import pathlib
import stat
import subprocess
from unittest import mock

import ddt
import fixtures
from keystoneauth1 import session as keystone_session
from oslo_config import cfg
import testtools

from cloud import cloud
from cloud import commands
from cloud import processes
from cloud.openstack import broker
from cloud.openstack import cinder
from cloud.openstack import compute
from cloud.openstack import credentials
from cloud.openstack import files as private
from cloud.openstack import keystone
from cloud.openstack import layout
from cloud.openstack import neutron
from cloud.openstack import ovn
from cloud.openstack import probes
from cloud.openstack import readiness
from cloud.openstack import reported
from cloud.openstack import services
from specreds_nova import deployment


class _Base(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.files = layout.Layout(self.data)
        self.settings = layout.Settings()
        self.backends = self.files.own_backends(2)

    def make_passwords(self) -> dict[str, str]:
        credentials.create(self.files)
        return credentials.load(self.files)

    def assert_private(self, path: pathlib.Path) -> None:
        self.assertEqual(0o600, stat.S_IMODE(path.stat().st_mode))


@ddt.ddt
class SettingsTest(_Base):

    def assert_refused(self, words: str, **options: object) -> None:
        error = self.assertRaises(commands.CloudError, cloud.Cloud, self.data, **options)
        self.assertIn(words, str(error))

    @ddt.data(({'port': 80}, 'port 80'), ({'port': 65400}, 'port 65400'),
              ({'backends': 0}, '0 back ends'), ({'backends': 6}, '6 back ends'),
              ({'hosts': -1}, '-1 hosts'), ({'hosts': 9}, '9 hosts'))
    @ddt.unpack
    def test_setting_out_of_range_is_refused(self, options: dict[str, int], words: str) -> None:
        self.assert_refused(words, **options)

    @ddt.data('rbd', 'a b', '', '../x')
    def test_invalid_name_of_a_back_end_is_refused(self, name: str) -> None:
        self.assert_refused('name rbd' if name == 'rbd' else f'back end {name!r}',
                            extra_backends=[layout.Backend(name, 'p', 'u', '/c')])

    def test_port_cannot_change(self) -> None:
        self.files.save(layout.Settings(port=20000))
        self.assert_refused('port 20000', port=20200)

    def test_hosts_cannot_be_added_to_block_storage(self) -> None:
        self.files.save(layout.Settings())
        self.assert_refused('hosts 0', hosts=3)

    def test_cloud_without_hosts_uses_the_loopback_interface(self) -> None:
        self.assertEqual({'127.0.0.1'}, {self.settings.host, self.settings.storage_host})

    @ddt.data(1024, 17600, 65336)
    def test_networks_of_two_clouds_do_not_overlap(self, port: int) -> None:
        settings = layout.Settings(port=port, hosts=layout.MAX_HOSTS)
        networks = [settings.control, settings.storage]
        beside = layout.Settings(port=port - 200, hosts=1)
        for network in networks:
            self.assertTrue(network.subnet_of(ipaddress.IPv4Network('198.18.0.0/15')))
            self.assertFalse(any(map(network.overlaps, (beside.control, beside.storage))))
        self.assertFalse(networks[0].overlaps(networks[1]))
        self.assertIn(ipaddress.ip_address(settings.host), settings.control)
        self.assertIn(ipaddress.ip_address(settings.storage_host), settings.storage)
        self.assertIn(settings.host, settings.auth_url)

    def test_plug_in_and_extra_back_ends_can_change(self) -> None:
        far = layout.Backend('far', 'pool', 'user', '/etc/ceph/far.conf')
        self.files.save(layout.Settings(port=20000))
        changed = cloud.Cloud(self.data, plain=True, extra_backends=[far])
        self.assertTrue(changed.settings.plain)
        self.assertEqual(['rbd', 'rbd2', 'far'], [each.name for each in changed.backends])
        self.files.save(changed.settings)
        self.assertEqual(changed.settings, cloud.Cloud(self.data).settings)

    def test_path_too_long_for_sockets_is_refused(self) -> None:
        self.assertRaises(commands.CloudError, cloud.Cloud, self.data / ('x' * 80))

    def test_directory_without_a_cloud_is_left_alone(self) -> None:
        (self.data / 'precious').write_text('data')
        for action in (cloud.Cloud(self.data).up, cloud.Cloud(self.data).wipe):
            error = self.assertRaises(commands.CloudError, action)
            self.assertIn('left alone', str(error))
        self.assertEqual(['precious'], [path.name for path in self.data.iterdir()])

    def test_session_needs_a_cloud(self) -> None:
        error = self.assertRaises(commands.CloudError, cloud.Cloud(self.data).session)
        self.assertIn('./run cloud up', str(error))
        self.assertEqual([], list(self.data.iterdir()))

    def test_back_end_is_parsed(self) -> None:
        self.assertEqual(layout.Backend('far', 'pool', 'user', '/etc/ceph/far.conf'),
                         layout.Backend.parse('far=pool,user,/etc/ceph/far.conf'))

    @ddt.data('far', 'far=pool', 'far=pool,user', 'far=pool,,/conf')
    def test_incomplete_back_end_is_refused(self, text: str) -> None:
        self.assertRaises(commands.CloudError, layout.Backend.parse, text)

    def test_clouds_side_by_side_share_no_port(self) -> None:
        other = layout.Settings(port=self.settings.port + layout.PORTS + 100)
        ports = [*self.settings.ports, self.settings.ceph_port]
        self.assertEqual(len(ports), len(set(ports)))
        self.assertEqual(set(), set(ports) & {*other.ports, other.ceph_port})


class CinderConfTest(_Base):

    def parse(self, settings: layout.Settings, backend: str = '') -> cfg.ConfigOpts:
        """Return the configuration as oslo.config reads it."""
        private.write(self.files.cinder_conf, private.ini(
            cinder.conf(self.files, settings, self.make_passwords(), self.backends)))
        paths = [self.files.cinder_conf]
        for each in self.backends:
            for instance, text in cinder.process_confs(each).items():
                path = self.files.instance_conf(instance)
                private.write(path, private.ini(text))
                if instance == backend:
                    paths.append(path)
        self.assert_private(self.files.cinder_conf)
        conf = cfg.ConfigOpts()
        conf.register_opts([cfg.ListOpt('enabled_backends'), cfg.StrOpt('volume_manager'),
                            cfg.MultiStrOpt('osapi_volume_extension')])
        for each in self.backends:
            conf.register_opts([cfg.StrOpt('volume_driver'), cfg.StrOpt('rbd_pool'),
                                cfg.StrOpt('rbd_user'), cfg.StrOpt('rbd_ceph_conf')], each.name)
        conf(args=[], default_config_files=list(map(str, paths)))
        return conf

    def test_plug_in_sets_extension_and_driver(self) -> None:
        conf = self.parse(self.settings)
        self.assertEqual(deployment.cinder()['DEFAULT']['osapi_volume_extension'],
                         conf.osapi_volume_extension)
        self.assertEqual({deployment.VOLUME_DRIVER}, {conf.rbd.volume_driver,
                                                      conf.rbd2.volume_driver})

    def test_plain_cloud_has_cinders_own_driver(self) -> None:
        conf = self.parse(layout.Settings(plain=True))
        self.assertIsNone(conf.volume_manager)
        self.assertIsNone(conf.osapi_volume_extension)
        self.assertEqual(deployment.PLAIN_VOLUME_DRIVER, conf.rbd.volume_driver)
        self.assertNotIn('specreds_cinder', self.files.cinder_conf.read_text())

    def test_each_back_end_has_a_pool_of_its_own_and_all_have_one_user(self) -> None:
        conf = self.parse(self.settings)
        self.assertEqual(('volumes', 'cinder'), (conf.rbd.rbd_pool, conf.rbd.rbd_user))
        self.assertEqual(('volumes2', 'cinder'), (conf.rbd2.rbd_pool, conf.rbd2.rbd_user))
        self.assertEqual(conf.rbd.rbd_ceph_conf, conf.rbd2.rbd_ceph_conf)

    def test_one_process_serves_one_back_end(self) -> None:
        self.assertEqual(['rbd', 'rbd2'], self.parse(self.settings).enabled_backends)
        self.assertEqual(['rbd2'], self.parse(self.settings, 'rbd2').enabled_backends)


class SecretsTest(_Base):

    def test_passwords_are_random_private_and_kept(self) -> None:
        first = self.make_passwords()
        self.assert_private(self.files.passwords)
        self.assertEqual(first, self.make_passwords())
        self.assertEqual(len(first), len(set(first.values())))
        other = layout.Layout(self.data / 'other')
        credentials.create(other)
        self.assertEqual(set(), set(first.values()) & set(credentials.load(other).values()))

    def test_command_lines_have_no_password(self) -> None:
        passwords = self.make_passwords()
        programs = services.programs(self.files, self.settings, self.backends)
        shown = json.dumps([[*program.argv, *program.environment.values()]
                            for program in programs.values()])
        for password in passwords.values():
            self.assertNotIn(password, shown)

    def test_files_with_passwords_are_private(self) -> None:
        passwords = self.make_passwords()
        credentials.write(self.files, self.settings, passwords)
        broker.prepare(self.files, self.settings, passwords)
        private.write(self.files.keystone_conf, private.ini(
            keystone.conf(self.files, self.settings, passwords)))
        paths = [path for path in self.data.rglob('*') if path.is_file() and any(
            password in path.read_text() for password in passwords.values())]
        self.assertLessEqual({self.files.passwords, self.files.openrc('demo'),
                              self.files.clouds_yaml, self.files.keystone_conf}, set(paths))
        for path in paths:
            self.assert_private(path)

    def test_broker_gets_a_salted_hash_only(self) -> None:
        passwords = self.make_passwords()
        broker.prepare(self.files, self.settings, passwords)
        text = self.files.broker_definitions.read_text()
        self.assertNotIn(passwords['rabbitmq'], text)
        digest = base64.b64decode(json.loads(text)['users'][0]['password_hash'])
        self.assertEqual(hashlib.sha256(digest[:4] + passwords['rabbitmq'].encode()).digest(),
                         digest[4:])
        broker.prepare(self.files, self.settings, passwords)
        self.assertEqual(text, self.files.broker_definitions.read_text())

    def test_openrc_leaves_nothing_of_another_cloud(self) -> None:
        passwords = self.make_passwords()
        credentials.write(self.files, self.settings, passwords)
        foreign = {'OS_CLOUD': 'elsewhere', 'OS_TOKEN': 'x', 'PATH': '/usr/bin:/bin'}
        shown = subprocess.run(['sh', '-c', f'. {self.files.openrc("demo")} && env'],
                               env=foreign, capture_output=True, text=True, check=True,
                               timeout=30).stdout
        variables = dict(line.split('=', 1) for line in shown.splitlines())
        self.assertEqual(credentials.variables(self.settings, 'demo', passwords['demo']),
                         {name: value for name, value in variables.items() if name[:3] == 'OS_'})
        self.assertTrue(variables['PATH'].startswith(f'{layout.BIN}:'))
        self.assertEqual(self.settings.auth_url, json.loads(self.files.clouds_yaml.read_text())[
            'clouds']['reader']['auth']['auth_url'])


class FilesTest(_Base):

    def test_write_returns_whether_the_file_changed(self) -> None:
        path = self.data / 'new' / 'file'
        self.assertTrue(private.write(path, 'one'))
        self.assertFalse(private.write(path, 'one'))
        self.assertTrue(private.write(path, 'two'))
        self.assertEqual('two', path.read_text())
        self.assertEqual([path], list(path.parent.iterdir()))

    def test_ini_has_repeated_options(self) -> None:
        self.assertEqual('[a]\nx = 1\ny = p\ny = q$$r\n',
                         private.ini({'a': {'x': 1, 'y': ['p', 'q$r']}}))

    def test_later_options_win(self) -> None:
        self.assertEqual({'a': {'x': 2, 'y': 1}, 'b': {'z': 3}},
                         private.merged({'a': {'x': 1, 'y': 1}}, {'a': {'x': 2}, 'b': {'z': 3}}))


class ServicesTest(_Base):

    def test_every_worker_has_a_queue(self) -> None:
        programs = services.programs(self.files, self.settings, self.backends)
        workers = cinder.workers(self.backends)
        self.assertEqual(list(programs)[-4:], [worker.name for worker in workers])
        self.assertEqual(
            reported.Worker('cinder-volume-rbd2', 'cinder-volume.controller@rbd2',
                            'cinder-volume', 'controller@rbd2', 'Cinder'), workers[-1])

    def test_cloud_without_hosts_has_only_block_storage(self) -> None:
        alone = services.programs(self.files, self.settings, self.backends)
        settings = layout.Settings(hosts=1)
        full = services.programs(self.files, settings, self.backends)
        self.assertEqual(list(alone), list(full)[:len(alone)])
        started = [name for _, names in compute.tables(settings).values() for name in names]
        self.assertEqual(sorted(set(full) - set(alone)), sorted(started))
        self.assertLessEqual({worker.name for worker in compute.workers()}, set(started))

    def test_databases_of_ovn_start_before_what_uses_them(self) -> None:
        settings = layout.Settings(hosts=1, network='ovn')
        names = list(services.programs(self.files, settings, self.backends))
        self.assertLess(names.index(ovn.NORTHD), names.index(services.NEUTRON_API))
        self.assertIn(services.NEUTRON_OVN, services.neutron(settings))
        self.assertLessEqual({settings.northbound_port, settings.southbound_port},
                             set(settings.ports))
        self.assertEqual(len(settings.ports), len(set(settings.ports)))
        alone = services.programs(self.files, layout.Settings(network='ovn'), self.backends)
        self.assertFalse(set(alone) & {*ovn.PROGRAMS, services.NEUTRON_OVN})

    def test_conductor_of_the_second_cell_reads_what_differs(self) -> None:
        settings = layout.Settings(hosts=2, cells=2)
        program = services.programs(self.files, settings, self.backends)[services.SECOND_CONDUCTOR]
        self.assertEqual(str(self.files.second_cell_conf), program.argv[-1])
        self.assertIn(services.SECOND_CONDUCTOR, services.nova(settings))

    def test_each_cell_needs_a_host(self) -> None:
        layout.Settings(hosts=2, cells=2).check([])
        self.assertRaises(commands.CloudError, layout.Settings(hosts=1, cells=2).check, [])
        self.assertRaises(commands.CloudError, layout.Settings(hosts=3, cells=3).check, [])

    def test_routers_are_those_of_the_network(self) -> None:
        for network, plugins, kind in (('ovs', [], 'vlan'), ('dvr', ['router'], 'vxlan'),
                                       ('ovn', ['ovn-router'], 'geneve')):
            settings = layout.Settings(hosts=1, network=network)
            conf = neutron.conf(self.files, settings, self.make_passwords())
            self.assertEqual(f'trunk,qos,{",".join(plugins)}'.rstrip(','),
                             conf['DEFAULT']['service_plugins'])
            self.assertEqual(kind, conf['ml2']['tenant_network_types'])
            self.assertEqual(bool(plugins), settings.tunnels)

    def test_ovn_has_a_firewall_of_its_own(self) -> None:
        settings = layout.Settings(hosts=1, network='ovn', firewall='iptables_hybrid')
        with self.assertRaisesRegex(commands.CloudError, 'OVN has its own'):
            settings.check([])

    def test_every_api_has_a_port_of_its_own(self) -> None:
        settings = layout.Settings(hosts=1)
        ports = services.api_ports(settings)
        self.assertEqual(len(ports), len(set(ports.values())))
        self.assertLessEqual(set(ports.values()), set(settings.ports))
        self.assertLessEqual(set(ports), set(services.programs(self.files, settings, [])))

    def test_clustered_back_end_has_two_services(self) -> None:
        *_, shared = self.files.own_backends(1, clustered=True)
        programs = services.programs(self.files, self.settings, [shared])
        self.assertEqual(['cinder-volume-rbd-shared', 'cinder-volume-rbd-shared-2'],
                         list(programs)[-2:])
        self.assertEqual(['cinder-volume.controller@rbd-shared',
                          'cinder-volume.controller2@rbd-shared'],
                         [worker.queue for worker in cinder.workers([shared])[2:]])
        first, second = (conf['DEFAULT'] for conf in cinder.process_confs(shared).values())
        self.assertEqual({**first, 'host': 'controller2'}, second)
        self.assertEqual('controllers', first['cluster'])
        self.assertEqual('controllers@rbd-shared#rbd-shared', cinder.pool(shared))

    def test_single_service_has_no_cluster(self) -> None:
        (conf,) = cinder.process_confs(self.backends[0]).values()
        self.assertNotIn('cluster', conf['DEFAULT'])
        self.assertEqual('controller@rbd#rbd', cinder.pool(self.backends[0]))

    def test_service_reads_the_common_and_its_own_configuration(self) -> None:
        program = services.programs(self.files, self.settings, self.backends)[
            'cinder-volume-rbd2']
        self.assertEqual([str(self.files.cinder_conf), str(self.files.instance_conf('rbd2'))],
                         [word for word in program.argv if word.endswith('.conf')])


    def test_stopped_worker_is_not_missing(self) -> None:
        settings = layout.Settings()
        workers = cinder.workers(self.backends)
        stopped = [services.CINDER_BACKUP]
        ready = readiness.Readiness(settings, self.make_passwords(), workers, [],
                                    keystone_session.Session, list, lambda: stopped)
        with mock.patch.object(broker, 'idle', lambda _settings, _passwords, queues: queues), \
                mock.patch.object(cinder.Api, 'pools', return_value=[]):
            self.assertNotIn('cinder-backup', ready.missing())
            stopped.clear()
            self.assertIn('cinder-backup.controller', ready.missing())

    def test_readers_of_volumes_find_keyrings_where_os_brick_looks(self) -> None:
        far = layout.Backend('far', 'pool', 'user', '/etc/ceph/far.conf')
        with mock.patch('os.getuid', return_value=0):
            programs = services.programs(self.files, self.settings, [*self.backends, far])
        for name, wanted in ((services.CINDER_BACKUP, True), ('cinder-volume-rbd2', True),
                             ('cinder-volume-far', False)):
            argv = programs[name].argv
            self.assertEqual(wanted, 'mount --bind "$0" /etc/ceph; exec "$@"' in argv)
            self.assertEqual(wanted, str(self.files.keyrings) in argv)


class ProbesTest(_Base):

    def check(self, name: str, *running: processes.Process) -> probes.Check:
        checks = probes.Probes(self.files, self.settings, {}, list(running),
                               lambda service: self.data / f'{service}.out',
                               (), {'Cinder': cinder.Api(keystone_session.Session())})
        return checks.check(name)

    def test_stopped_service_shows_no_error(self) -> None:
        (self.data / 'keystone.out').write_text('2026 ERROR old\n')
        self.assertEqual('stopped', self.check('keystone').words)

    def test_dead_service_shows_its_last_error(self) -> None:
        (self.data / 'keystone.out').write_text('1 INFO a\n2 ERROR no database\n3 INFO b\n')
        check = self.check('keystone', processes.Process('keystone', 'BACKOFF', 0))
        self.assertFalse(check.good)
        self.assertEqual('backoff (2 ERROR no database)', check.words)
        self.assertEqual(self.data / 'keystone.out', check.log)

    def test_service_that_does_not_answer_is_not_good(self) -> None:
        check = self.check('mariadb', processes.Process('mariadb', 'RUNNING', 1))
        self.assertFalse(check.good)
        self.assertIn('running, but', check.words)

    def test_last_error_is_found_in_a_log(self) -> None:
        log = self.data / 'x.out'
        self.assertEqual('', probes.last_error(log))
        log.write_text('fine\n')
        self.assertEqual('', probes.last_error(log))
        log.write_text('Traceback (most recent call last):\n  File "x"\nValueError: bad\nfine\n')
        self.assertEqual('ValueError: bad', probes.last_error(log))
