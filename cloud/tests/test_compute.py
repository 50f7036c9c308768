# SPDX-License-Identifier: Apache-2.0
"""The parts of a cloud with compute hosts beside block storage: configurations and seeds."""

from collections.abc import Mapping
import dataclasses
import pathlib
from typing import Any
from unittest import mock

import fixtures
from keystoneauth1 import exceptions as keystone_exceptions
from oslo_config import cfg
import testtools

from cloud import caps
from cloud import cloud
from cloud import commands
from cloud.guests import images as guests
from cloud.openstack import accounts
from cloud.openstack import broker
from cloud.openstack import cinder
from cloud.openstack import compute
from cloud.openstack import contents
from cloud.openstack import credentials
from cloud.openstack import database
from cloud.openstack import files as private
from cloud.openstack import glance
from cloud.openstack import keystone
from cloud.openstack import layout
from cloud.openstack import neutron
from cloud.openstack import nova
from cloud.openstack import readiness
from cloud.openstack import reported
from cloud.openstack import services
from specreds_nova import deployment


class _Base(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.files = layout.Layout(self.data)
        self.settings = layout.Settings(hosts=2)
        credentials.create(self.files)
        self.passwords = credentials.load(self.files)


class ConfTest(_Base):

    def parse(self, path: pathlib.Path, section: str, *names: str) -> dict[str, Any]:
        """Return options as oslo.config reads them."""
        conf = cfg.ConfigOpts()
        conf.register_opts([cfg.StrOpt(name) for name in names], section)
        conf(args=[], default_config_files=[str(path)])
        return dict(conf[section])

    def test_second_cell_has_a_broker_and_a_database_of_its_own(self) -> None:
        settings = layout.Settings(hosts=3, cells=2)
        self.assertIn(services.SECOND_CONDUCTOR,
                      compute.write(self.files, settings, self.passwords))
        url = self.parse(self.files.second_cell_conf, 'DEFAULT', 'transport_url')['transport_url']
        self.assertEqual(f'{broker.url(settings, self.passwords)}cell2', url)
        connection = self.parse(self.files.second_cell_conf, 'database', 'connection')
        self.assertIn('/nova_cell2?', connection['connection'])
        self.assertEqual([True, True, False],
                         [settings.in_second_cell(name) for name in settings.host_names])
        run = self.useFixture(fixtures.MockPatch('cloud.commands.run')).mock
        nova.prepare(self.files)
        made = [call.args[0] for call in run.call_args_list if 'create_cell' in call.args[0]]
        self.assertEqual(['cell1', 'cell2'],
                         [argv[argv.index('--name') + 1] for argv in made])
        for password in self.passwords.values():
            self.assertNotIn(password, str(run.call_args_list))

    def test_only_changed_services_are_restarted(self) -> None:
        everything = [name for _, names in compute.tables(self.settings).values()
                      for name in names]
        written = compute.write(self.files, self.settings, self.passwords)
        self.assertEqual(sorted(everything), sorted(written))
        self.assertEqual([], compute.write(self.files, self.settings, self.passwords))
        self.passwords['mariadb-glance'] = 'another'
        self.assertEqual(['glance'], compute.write(self.files, self.settings, self.passwords))

    def test_each_service_has_its_databases(self) -> None:
        compute.write(self.files, self.settings, self.passwords)
        names = database.services(self.settings)
        self.assertEqual(names.keys() - database.services(layout.Settings()).keys(),
                         set(compute.tables(self.settings)))
        for section, name in (('database', 'nova'), ('api_database', 'nova_api')):
            url = self.parse(self.files.nova_conf, section, 'connection')['connection']
            self.assertIn(f'nova:{self.passwords["mariadb-nova"]}@{self.settings.host}:', url)
            self.assertIn(f'/{name}?', url)
            self.assertIn(name, names['nova'])

    def test_common_configuration_has_no_database_and_no_host(self) -> None:
        for conf in (nova.common(self.settings, self.passwords),
                     neutron.common(self.settings, self.passwords)):
            self.assertEqual(set(), {'database', 'api_database'} & set(conf))
            self.assertEqual(set(), {'host', 'my_ip', 'state_path', 'compute_driver'}
                             & set(conf['DEFAULT']))
            self.assertNotIn('mariadb', private.ini(conf))

    def test_services_send_and_require_service_tokens(self) -> None:
        sections = accounts.sections(self.settings, self.passwords, 'nova', ('cinder',))
        self.assertEqual('true', sections['service_user']['send_service_user_token'])
        self.assertEqual('true', sections['keystone_authtoken']['service_token_roles_required'])
        for section in sections.values():
            self.assertEqual(('nova', self.passwords['nova']),
                             (section['username'], section['password']))

    def test_each_service_has_a_password_of_its_own(self) -> None:
        known = [self.passwords[name] for name in (*accounts.COMPUTE, *database.ACCOUNTS)]
        self.assertEqual(len(known), len(set(known)))

    def test_cinder_has_a_section_for_nova_only_with_hosts(self) -> None:
        backends = self.files.own_backends(1)
        for settings in (self.settings, layout.Settings()):
            conf = cinder.conf(self.files, settings, self.passwords, backends)
            self.assertEqual(bool(settings.hosts), 'nova' in conf)

    def test_first_back_end_superposes_disks_that_nova_keeps_in_rbd(self) -> None:
        backends = self.files.own_backends(2)
        settings = dataclasses.replace(self.settings, disks=layout.RBD)
        conf = cinder.conf(self.files, settings, self.passwords, backends)
        self.assertEqual((f'{cinder.HOST}@{backends[0].name}', 'vms'),
                         (conf['specreds']['server_disks_backend'],
                          conf['specreds']['server_disks_pool']))
        self.assertNotIn('specreds', cinder.conf(
            self.files, self.settings, self.passwords, backends))

    def test_each_back_end_has_a_secret_of_its_own(self) -> None:
        backends = self.files.own_backends(3)
        secrets = [backend.secret(self.settings) for backend in backends]
        self.assertEqual(3, len(set(secrets)))
        self.assertEqual(secrets, [backend.secret(self.settings) for backend in backends])
        conf = cinder.conf(self.files, self.settings, self.passwords, backends)
        self.assertEqual(secrets, [conf[backend.name]['rbd_secret_uuid']
                                   for backend in backends])

    def test_plug_in_sets_the_compute_driver(self) -> None:
        self.assertEqual('specreds.SpeculativeLibvirtDriver',
                         deployment.compute()['DEFAULT']['compute_driver'])

    def test_glance_and_cinder_share_a_cluster(self) -> None:
        conf = glance.conf(self.files, self.settings, self.passwords)
        self.assertEqual(self.files.ceph, pathlib.Path(str(
            conf['rbd']['rbd_store_ceph_conf'])).parent)
        self.assertEqual('profile rbd pool=volumes, profile rbd-read-only pool=images',
                         caps.cinder(['volumes'], [glance.POOL])['osd'])
        self.assertEqual('profile rbd pool=images', caps.glance(glance.POOL)['osd'])


class CellsTest(_Base):

    def prepared(self) -> list[list[str]]:
        """Return the arguments of each run of `nova-manage`."""
        with mock.patch.object(commands, 'run') as run:
            nova.prepare(self.files)
        return [call.args[0][3:] for call in run.call_args_list]

    def test_first_start_creates_a_cell(self) -> None:
        self.assertEqual([['api_db', 'sync'], ['cell_v2', 'map_cell0'],
                          ['cell_v2', 'create_cell', '--name', 'cell1'], ['db', 'sync']],
                         self.prepared())

    def test_other_release_of_nova_creates_no_second_cell(self) -> None:
        private.write(self.files.done('nova'), '1.0')
        self.assertNotIn(['cell_v2', 'create_cell', '--name', 'cell1'], self.prepared())


class _Catalogue(keystone.Seed):
    """Keeps what is published and granted, without a Keystone."""

    def __init__(self, settings: layout.Settings) -> None:
        self._settings = settings
        self.published: dict[str, str] = {}
        self.granted: list[tuple[str, str, str]] = []

    def publish(self, kind: str, name: str, url: str) -> None:
        self.published[kind] = url

    def _grant(self, user: str, project: str, role: str) -> None:
        self.granted.append((user, project, role))


class SeedTest(_Base):

    def test_catalogue_has_the_services_of_compute_only_with_hosts(self) -> None:
        alone, full = _Catalogue(layout.Settings()), _Catalogue(self.settings)
        for seed in (alone, full):
            seed.run()
        self.assertEqual({'block-storage', 'volumev3'}, set(alone.published))
        self.assertEqual({'placement', 'compute', 'image', 'network'},
                         full.published.keys() - alone.published.keys())
        self.assertEqual(set(), {user for user, _, _ in alone.granted} & set(accounts.COMPUTE))
        for user in accounts.COMPUTE:
            for role in ('admin', 'service'):
                self.assertIn((user, 'service', role), full.granted)
        for url in full.published.values():
            self.assertTrue(url.startswith(f'http://{self.settings.host}:'))

    def test_refused_request_is_an_error(self) -> None:
        with mock.patch.object(neutron.Api, 'make_network',
                               side_effect=keystone_exceptions.BadRequest('no')):
            error = self.assertRaises(commands.CloudError, compute.seed, mock.Mock(), print)
        self.assertIn('no', str(error))

    def test_guest_that_takes_long_to_make_is_provided_on_demand(self) -> None:
        with (mock.patch.object(neutron.Api, 'make_network'),
              mock.patch.object(nova.Api, 'make_flavours'),
              mock.patch.object(guests, 'image', lambda name, _progress: self.data / name),
              mock.patch.object(glance.Api, 'provide') as provide):
            compute.seed(mock.Mock(), print)
            self.assertEqual(['g1', 'g2'], [call.args[0] for call in provide.call_args_list])
            compute.provide(mock.Mock(), 'g3', print)
        self.assertEqual(('g3', self.data / 'g3', print), provide.call_args.args)


class ReadinessTest(_Base):

    def missing(self, hosts: list[str], hypervisors: list[str],
                agents: list[reported.Service]) -> str:
        with mock.patch.object(nova.Api, 'hypervisors', return_value=hypervisors), \
                mock.patch.object(neutron.Api, 'services', return_value=agents):
            return compute.missing(mock.Mock(), hosts)

    def agent(self, host: str, up: bool = True) -> reported.Service:
        return reported.Service(neutron.AGENTS[0], host, up, True)

    def test_missing_hosts_are_named(self) -> None:
        agents = [self.agent('cn1'), self.agent('cn2', up=False)]
        self.assertIn('Nova has not heard of cn2', self.missing(['cn1', 'cn2'], ['cn1'], agents))
        self.assertIn('Neutron has not heard of cn2',
                      self.missing(['cn1', 'cn2'], ['cn1', 'cn2'], agents))
        self.assertEqual('', self.missing(['cn1'], ['cn1', 'cn2'], agents))
        self.assertEqual('', self.missing([], [], []))

    def test_wait_ends_when_nothing_is_missing(self) -> None:
        answers = iter(['much', 'little', ''])
        readiness.wait(lambda: next(answers), 60)
        self.assertRaises(StopIteration, next, answers)
        error = self.assertRaises(commands.CloudError, readiness.wait, lambda: 'everything', 0)
        self.assertIn('everything', str(error))


class ContentsTest(testtools.TestCase):

    def lines(self, superpositions: list[Mapping[str, Any]]) -> list[str]:
        server = {'id': 's1', 'name': 'web', 'status': 'ACTIVE', 'OS-EXT-STS:task_state': None,
                  'OS-EXT-SRV-ATTR:host': 'cn1',
                  'addresses': {'private': [{'addr': '10.77.0.12'}]}}
        fresh = server | {'id': 's2', 'name': 'new', 'status': 'BUILD', 'addresses': {},
                          'OS-EXT-STS:task_state': 'scheduling', 'OS-EXT-SRV-ATTR:host': None}
        with mock.patch.object(nova.Api, 'servers', return_value=[server, fresh]), \
                mock.patch.object(cinder.Api, 'superpositions', return_value=superpositions):
            return contents.lines(mock.Mock())

    def test_servers_and_superpositions_are_listed(self) -> None:
        superposition = {'id': 'x1', 'state': 'superposed', 'server_id': 's1',
                         'volume_ids': ['v1', 'v2']}
        gone = superposition | {'id': 'x2', 'server_id': None, 'volume_ids': ['v3']}
        self.assertEqual(['server web: ACTIVE on cn1 10.77.0.12',
                          'server new: BUILD (scheduling) on no host',
                          'superposition x1: superposed, 2 volumes of web',
                          'superposition x2: superposed, 1 volumes'],
                         self.lines([superposition, gone]))

    def test_missing_answer_is_an_error(self) -> None:
        with mock.patch.object(nova.Api, 'servers',
                               side_effect=keystone_exceptions.ConnectFailure('gone')):
            error = self.assertRaises(commands.CloudError, contents.lines, mock.Mock())
        self.assertIn('gone', str(error))


class CloudTest(_Base):

    def test_ceph_listens_on_the_storage_network(self) -> None:
        made = cloud.Cloud(self.data / 'c', hosts=2)
        self.assertEqual(made.settings.storage_host, made.ceph.settings.address)
        self.assertEqual('127.0.0.1', cloud.Cloud(self.data / 'd').ceph.settings.address)

    def test_interrupted_cloud_can_be_wiped(self) -> None:
        self.files.passwords.unlink()
        self.files.save(self.settings)
        cloud.Cloud(self.data).wipe()
        self.assertFalse(self.data.exists())


class ImagesTest(_Base):

    def provide(self, known: list[dict[str, str]], **answers: object) -> mock.Mock:
        """:returns: the API that was used"""
        made = self.data / 'g1-new' / 'disk.raw'
        made.parent.mkdir()
        made.write_bytes(b'raw')
        images = glance.Api(mock.Mock())
        api = mock.Mock(**answers)
        api.get.return_value.json.return_value = {'images': known}
        api.post.return_value.json.return_value = {'id': 'fresh'}
        with mock.patch.object(images, '_api', api):
            images.provide('g1', made, print)
        return api

    def image(self, version: str, status: str = 'active') -> dict[str, str]:
        return {'id': 'old', 'name': 'g1', 'status': status, 'specreds_version': version}

    def test_existing_image_is_not_uploaded(self) -> None:
        api = self.provide([self.image('g1-new')])
        api.post.assert_not_called()

    def test_interrupted_upload_is_repeated(self) -> None:
        api = self.provide([self.image('g1-new', 'queued')])
        self.assertEqual('/v2/images/old', api.delete.call_args.args[0])
        self.assertEqual('/v2/images/fresh/file', api.put.call_args.args[0])

    def test_old_version_in_use_is_renamed(self) -> None:
        api = self.provide([self.image('g1-old')],
                           **{'delete.side_effect': keystone_exceptions.Conflict('clones')})
        self.assertEqual('g1-old', api.patch.call_args.kwargs['json'][0]['value'])
        self.assertEqual('g1-new', api.post.call_args.kwargs['json']['specreds_version'])
        api.put.assert_called_once()
