# SPDX-License-Identifier: Apache-2.0
"""What DevStack writes with the plug-in is what the development cloud has."""

import atexit
import functools
import pathlib
import shlex
import shutil
import tempfile
from typing import Any

import fixtures
from keystoneauth1 import loading
from oslo_config import cfg
from oslo_policy import policy
import testtools

from cloud import caps
from cloud import ceph_conf
from cloud import layout as ceph_layout
from cloud.hosts import conf as hosts_conf
from cloud.hosts import layout as hosts_layout
from cloud.openstack import accounts
from cloud.openstack import cinder
from cloud.openstack import credentials
from cloud.openstack import engine
from cloud.openstack import layout
from devstack.tests import stack
from specreds_nova import deployment
from specreds_nova.engine import conf as engine_conf
from specreds_nova.engine import policies
from specreds_nova.status import cinder as cinder_status
from specreds_nova.status import files as status_files

# Names of places and of accounts, and who logs how: each cloud has its own.
_SITE = {('DEFAULT', 'transport_url'), ('DEFAULT', 'debug'), ('database', 'connection'),
         ('engine', 'scheduler_transport_url'), ('engine', 'voice_keys'),
         ('oslo_concurrency', 'lock_path'),
         *((section, name) for section in ('keystone_authtoken', 'service_auth')
           for name in ('auth_url', 'password', 'www_authenticate_uri', 'region_name'))}
# Domains by their name or by their id, which comes to the same.
_DOMAINS = {'user_domain_id', 'project_domain_id', 'user_domain_name', 'project_domain_name'}


@functools.cache
def _stacked() -> stack.Stack:
    """A node with everything, once for all tests of this process."""
    place = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, place)
    node = stack.Stack(pathlib.Path(place))
    node.run(*stack.STACK)
    return node


class _Base(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.stack = _stacked()
        self.files = layout.Layout(pathlib.Path(self.useFixture(fixtures.TempDir()).path))
        credentials.create(self.files)
        self.passwords = credentials.load(self.files)
        self.backends = [layout.Backend('ceph', 'volumes', 'cinder', '/etc/ceph/ceph.conf')]

    def settings(self, plain: bool) -> layout.Settings:
        return layout.Settings(hosts=1, plain=plain,
                               secret_uuid='6f8d1a4e-0f0b-4b53-9f3c-5b2f4c3a7d10')


class ConfigurationTest(_Base):

    def test_cinder_gets_the_options_of_the_plug_in(self) -> None:
        without, has = (stack.values(cinder.conf(self.files, self.settings(plain), self.passwords,
                                                 self.backends)) for plain in (True, False))
        expected = stack.added(without, has)
        self.assertEqual(expected, self.stack.added(self.stack.cinder_conf))
        self.assertEqual({'DEFAULT', 'ceph'}, set(expected))

    def test_status_check_accepts_the_settings_of_cinder(self) -> None:
        config = status_files.read([str(self.stack.cinder_conf)])
        self.assertTrue(cinder_status.in_use(config))
        # Only of what DevStack, and not the plug-in, would have written.
        self.assertEqual([], [str(finding) for finding in cinder_status.settings(config)
                              if 'coordination' not in str(finding)])

    def test_nova_compute_gets_the_options_of_the_plug_in(self) -> None:
        without, has = (stack.values(hosts_conf.Writer(
            hosts_layout.Layout(self.files, self.settings(plain), 1), self.passwords,
            self.backends, 'qemu').nova()) for plain in (True, False))
        sections = dict(self.stack.added(self.stack.nova_conf))
        # Where nova-compute is not root, and Ceph's file not where it is by default.
        helper = sections.pop('specreds_privileged')['helper_command'][0]
        self.assertEqual({'sentinel_ceph_conf': [str(self.stack.ceph_conf)]},
                         sections.pop('specreds'))
        self.assertEqual(stack.added(without, has), sections)
        self.assertEqual(['sudo', '/opt/stack/data/venv/bin/privsep-helper', '--config-file',
                          str(self.stack.nova_conf.with_name('nova-cpu.conf'))],
                         shlex.split(helper))

    def test_engine_has_the_options_of_the_development_cloud(self) -> None:
        has, sections = ({section: {name: value for name, value in options.items()
                                    if (section, name) not in _SITE and name not in _DOMAINS
                                    and not name.startswith(('logging_', 'log_'))}
                          for section, options in conf.items()}
                         for conf in (stack.values(engine.conf(self.files, self.settings(False),
                                                               self.passwords)),
                                      stack.read(self.stack.engine_conf)))
        # Of DevStack's own functions.
        for section, names in {'keystone_authtoken': ('cafile', 'interface', 'memcached_servers'),
                               'service_auth': ('interface',)}.items():
            for name in names:
                sections[section].pop(name)
        # Of tests that make one host fail often.
        has['engine'].pop('flap_count')
        # Of the setting that has a default.
        self.assertEqual({'enforce_scope': ['True']}, sections.pop('oslo_policy'))
        self.assertEqual(has, sections)
        self.assertIn('service_token_roles_required', has['keystone_authtoken'])

    def test_engine_reads_its_file(self) -> None:
        conf = cfg.ConfigOpts()
        engine_conf.register(conf)
        conf.register_opts([cfg.StrOpt('transport_url')])
        conf(args=[], default_config_files=[str(self.stack.engine_conf)])
        account: Any = loading.load_auth_from_conf_options(conf, 'service_auth')
        self.assertEqual('http://127.0.0.1/identity', account.auth_url)
        self.assertEqual('RegionOne', conf.service_auth.region_name)
        # Where DevStack has nova-compute.
        self.assertEqual('/nova_cell1', conf.transport_url[conf.transport_url.rindex('/'):])
        # Where it has Nova's scheduler.
        self.assertTrue(conf.engine.scheduler_transport_url.endswith(':5672/'))
        self.assertEqual(0o600, self.stack.engine_conf.stat().st_mode & 0o777)

    def test_cinder_user_gets_caps_and_mons_get_intervals(self) -> None:
        settings = ceph_layout.Settings()
        # Nova-compute writes a file of its own for backups, which QEMU has to read.
        self.assertEqual({'client': {'rbd_cache_policy': ['writethrough']}},
                         self.stack.added(self.stack.ceph_conf))
        self.assertRegex(self.stack.apparmor_rules.read_text(),
                         r'\A/.*/opt/data/nova/specreds-ceph\.conf r,\n\Z')
        self.assertEqual(
            [['ceph', '--conf', str(self.stack.ceph_conf), 'auth', 'caps', 'client.cinder',
              'mon', caps.cinder(['volumes'])['mon'], 'mgr', 'allow rw',
              'osd', 'allow rwx pool=volumes, allow rwx pool=vms']],
            [call for call in self.stack.calls_of('auth', 'caps') if call[0] == 'ceph'])
        daemon = ceph_conf.daemon(ceph_layout.Layout(self.files.ceph), settings)
        intervals = [call[-2:] for call in self.stack.calls_of('config', 'set', 'mon')
                     if call[0] == 'ceph']
        self.assertEqual(2, len(intervals))
        for name, value in intervals:
            self.assertIn(f'\n{name.replace("_", " ")} = {value}\n', daemon)

    def test_engine_gets_account_roles_and_endpoint(self) -> None:
        self.assertEqual(1, len(self.stack.calls_of('openstack', 'user', accounts.ENGINE)))
        self.assertEqual(set(accounts.ROLES), {
            call[call.index('add') + 1]
            for call in self.stack.calls_of('role', 'add', accounts.ENGINE)})
        service, = self.stack.calls_of('service', 'create', deployment.SERVICE_TYPE)
        self.assertEqual(deployment.SERVICE_NAME, service[service.index('--name') + 1])
        endpoint, = self.stack.calls_of('endpoint', 'create', deployment.SERVICE_TYPE)
        self.assertIn('http://127.0.0.1/speculative-recovery', endpoint)

    def test_no_policy_file_is_written_by_default(self) -> None:
        for directory in (self.stack.cinder_conf, self.stack.engine_conf):
            self.assertEqual([], list(directory.parent.glob('policy*')))

    def test_tempest_tests_the_plug_in_without_destruction(self) -> None:
        tempest = stack.read(self.stack.tempest_conf)
        self.assertEqual(['True'], tempest['service_available']['specreds'])
        self.assertEqual(['ceph'], tempest['specreds']['volume_type'])
        self.assertEqual(['False'], tempest['specreds']['destructive'])
        self.assertEqual(['True'], tempest['enforce_scope']['specreds'])


class PolicyTest(testtools.TestCase):

    def test_policy_files_of_the_user_count(self) -> None:
        place = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        rules = place / 'rules.yaml'
        rules.write_text(f'"{policies.SUSPECT}": "!"\n')
        root = place / 'root'
        root.mkdir()
        node = stack.Stack(root, SPECREDS_ENGINE_POLICY=str(rules),
                           SPECREDS_CINDER_POLICY=str(rules))
        node.run('post-config')
        conf = cfg.ConfigOpts()
        conf(args=[], default_config_files=[str(node.engine_conf)])
        enforcer = policy.Enforcer(conf)
        enforcer.register_defaults(policies.list_rules())
        admin = {'roles': ['admin'], 'project_id': 'p'}
        self.assertFalse(enforcer.enforce(policies.SUSPECT, {}, admin))
        self.assertTrue(enforcer.enforce(policies.CLEAR, {}, admin))
        self.assertEqual(rules.read_text(), (node.cinder_conf.parent / 'policy.d'
                                             / 'specreds.yaml').read_text())
