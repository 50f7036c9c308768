# SPDX-License-Identifier: Apache-2.0
"""``specreds-status upgrade check`` on hosts with everything, with nothing, and with mistakes."""

from collections.abc import Iterator
import contextlib
import io
import json
import pathlib
import socket
import sys
import threading
from typing import Any
from unittest import mock
from wsgiref import simple_server

import ddt
import fixtures
from keystoneauth1 import exceptions as keystone_exceptions
from keystoneauth1 import noauth
from keystoneauth1 import session
from keystoneauth1.identity import v3
from oslo_config import cfg
import rbd
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_nova import deployment
from specreds_nova.engine.store import connection
from specreds_nova.engine.store import manage
from specreds_nova.engine.store import migration
from specreds_nova.engine.store import store as stores
from specreds_nova.status import main

_GOOD_ENGINE = """\
[DEFAULT]
transport_url = rabbit://engine:secret@broker/
[database]
connection = sqlite:///{place}/engine.db
[service_auth]
auth_type = password
[keystone_authtoken]
auth_type = password
[engine]
slots = 50
[oslo_policy]
policy_file = {place}/policy.yaml
"""
_GOOD_NOVA = """\
[DEFAULT]
transport_url = rabbit://nova:secret@broker/
compute_driver = {driver}
state_path = {place}
[cinder]
auth_type = password
[specreds]
sentinel_ceph_conf = {place}/ceph.conf
"""
SUCCESS, WARNING, FAILURE = range(3)


class _Ceph:
    """A cluster that may refuse a monitor's command."""

    refused = ''
    pool = 'volumes'

    def __init__(self, conffile: str, user: str, timeout: float) -> None:
        self.asked: list[str] = []

    def __enter__(self) -> '_Ceph':
        return self

    def __exit__(self, *_exc: object) -> None:
        pass

    def pools(self) -> dict[int, ceph.Pool]:
        return {1: ceph.Pool(1, self.pool, 32, '', False, False, True)}

    @contextlib.contextmanager
    def ioctx(self, pool: str) -> Iterator[str]:
        yield pool

    def mon(self, command: dict[str, Any]) -> Any:
        operation = command.get('blocklistop', command['prefix'])
        assert operation != 'add', 'a check changes nothing'
        if operation == self.refused:
            raise errors.ClusterError(f'{operation}: client.cinder is not allowed to')


def _agent(host: str, **changes: Any) -> dict[str, Any]:
    return {'host': host, 'agent_type': 'Open vSwitch agent', 'alive': True,
            'configurations': {'ovs_hybrid_plug': False}, **changes}


class _Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def _healthy(environ: dict[str, Any], start: Any) -> list[bytes]:
    """Answer as the engine's API does."""
    start('200 OK' if environ['PATH_INFO'] == '/healthcheck' else '404 Not Found', [])
    return [b'']


@ddt.ddt
class UpgradeCheckTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.place = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(fixtures.MonkeyPatch('specreds_nova.status.main._PROC', self.place))
        self.useFixture(fixtures.MonkeyPatch(
            'specreds_nova.status.main._CINDER', str(self.place / 'cinder.conf')))
        self.useFixture(fixtures.MonkeyPatch('oslo_config.cfg.find_config_files',
                                             self.find_files))
        self.useFixture(fixtures.MonkeyPatch('oslo_config.cfg.find_config_dirs', lambda *_: []))
        self.qemu = self.make_program('qemu-img', "echo 'error reading conf file' >&2; exit 1")
        self.useFixture(fixtures.MonkeyPatch(
            'specreds_nova.status.nova._OPEN_RBD', (self.qemu,)))
        self.useFixture(fixtures.MonkeyPatch('specreds_nova.status.ceph.ceph.Cluster', _Ceph))
        self.pool_options = self.useFixture(fixtures.MockPatch(
            'specreds_cinder.superposition.ceph.overrides.rbd.RBD')).mock.return_value.config_list
        self.pool_options.return_value = []
        self.useFixture(fixtures.MockPatch('specreds_nova.status.caches.domains.Hypervisor'))
        self.agents = self.useFixture(fixtures.MockPatch(
            'specreds_nova.status.neutron._agents', return_value=[_agent(socket.gethostname())])
        ).mock
        self.api = simple_server.make_server(
            '127.0.0.1', 0, _healthy, handler_class=_Quiet)
        threading.Thread(target=self.api.serve_forever, daemon=True).start()
        self.addCleanup(self.api.server_close)
        self.addCleanup(self.api.shutdown)
        self.session = session.Session(auth=noauth.NoAuth(
            endpoint=f'http://127.0.0.1:{self.api.server_port}/v1'))
        self.useFixture(fixtures.MockPatch(
            'specreds_nova.status.engine.rest.Session',
            return_value=mock.Mock(keystone=self.session)))

    def find_files(self, project: str, program: str) -> list[str]:
        return [str(path) for name in (project, program)
                if (path := self.place / f'{name}.conf').exists() and project == 'nova']

    def make_program(self, name: str, *lines: str) -> str:
        path = self.place / name
        path.write_text('\n'.join(['#!/bin/sh', *lines, '']))
        path.chmod(0o755)
        return str(path)

    def run_nova(self, *arguments: str, python: str = '') -> None:
        """Have nova-compute run, by a Python that imports everything unless it is named."""
        process = self.place / '41'
        process.mkdir(exist_ok=True)
        python = python or self.make_program('python3', 'exit 0')
        (process / 'cmdline').write_text('\0'.join(
            [python, '-s', '/usr/bin/nova-compute', *arguments, '']))

    def write(self, name: str, text: str, **words: str) -> str:
        path = self.place / name
        path.write_text(text.format(place=self.place, driver=deployment.compute()['DEFAULT'][
            'compute_driver'], **words))
        return str(path)

    def write_engine(self, text: str = _GOOD_ENGINE) -> list[str]:
        path = self.write('specreds-engine.conf', text)
        return ['--config-file', path]

    def make_engine(self, mode: str | None = 'act', *, heard: bool = True) -> list[str]:
        arguments = self.write_engine()
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(0, manage.main([*arguments, 'db', 'sync']))
            if mode is not None:
                self.assertEqual(0, manage.main([*arguments, 'mode', mode, '--reason', 'a test']))
        if heard:
            conf = cfg.ConfigOpts()
            connection.register(conf)
            conf(arguments)
            stores.from_conf(conf).see('node1')
        return arguments

    def write_cinder(self, **changed: object) -> None:
        """Write the cinder.conf of the development cloud with changed options; None omits one."""
        known = deployment.cinder()
        default = {**known['DEFAULT'], 'enabled_backends': 'lvm,ceph', **changed}
        lines = ['[DEFAULT]']
        for name, value in default.items():
            values = value if isinstance(value, list) else [value]
            lines += [f'{name} = {each}' for each in values if each is not None]
        lines += ['[coordination]', 'backend_url = etcd3+http://etcd',
                  '[lvm]', 'volume_driver = cinder.volume.drivers.lvm.LVMVolumeDriver',
                  '[ceph]', f'volume_driver = {deployment.VOLUME_DRIVER}', 'rbd_user = cinder',
                  'rbd_ceph_conf = /etc/ceph/ceph.conf', 'rbd_pool = volumes', '[specreds]']
        self.write('cinder.conf', '\n'.join(lines) + '\n')

    def write_nova(self, text: str = _GOOD_NOVA) -> None:
        self.write('ceph.conf', '[client]\n')
        self.write('nova.conf', text)
        self.run_nova()
        (self.place / 'specreds').mkdir(exist_ok=True)
        self.write('specreds/sentinel.json', '{{"pid": 1}}')

    def run_check(self, *arguments: str) -> dict[str, tuple[int, str]]:
        """Run the check, and return result and details of each part; assert the exit status."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = main.main([*arguments, 'upgrade', 'check', '--json'])
        self.assertNotEqual(255, status, printed.getvalue())
        self.assertNotIn('secret', printed.getvalue())
        findings = {each['check']: (each['result'], each['details'] or '')
                    for each in json.loads(printed.getvalue())['checks']}
        self.assertEqual(max(code for code, _ in findings.values()), status)
        return findings

    def assert_found(self, check: str, code: int, words: str, *arguments: str) -> None:
        result, details = self.run_check(*arguments)[check]
        self.assertEqual(code, result, details)
        self.assertIn(words, details)

    def test_host_without_configuration_succeeds(self) -> None:
        self.assertEqual({SUCCESS}, {code for code, _ in self.run_check().values()})

    def test_complete_configuration_succeeds(self) -> None:
        arguments = self.make_engine()
        self.write_cinder()
        self.write_nova()
        findings = self.run_check(*arguments)
        self.assertEqual({SUCCESS}, {code for code, _ in findings.values()}, str(findings))
        self.assertEqual({'fine', ''}, {text for _, text in findings.values()})

    def test_other_network_fails(self) -> None:
        self.write_nova()
        host = socket.gethostname()
        self.agents.return_value = [_agent(host, agent_type='Macvtap agent'), _agent('other')]
        self.assert_found('Nova: network agents', FAILURE, 'Neutron has Macvtap agent')
        self.agents.return_value = []
        self.assert_found('Nova: network agents', FAILURE, 'Neutron has no agent')

    @ddt.data('OVN Controller agent', 'OVN Controller Gateway agent')
    def test_controller_of_ovn_succeeds(self, kind: str) -> None:
        self.write_nova()
        host = socket.gethostname()
        self.agents.return_value = [
            _agent(host, agent_type=kind, configurations={}),
            _agent(host, agent_type='OVN Metadata agent', configurations={}),
            _agent('other', agent_type='OVN Controller agent', configurations={})]
        self.assertEqual(SUCCESS, self.run_check()['Nova: network agents'][0])
        self.agents.return_value[0]['alive'] = False
        self.assert_found('Nova: network agents', WARNING, f'the {kind} on {host} is down')

    def test_other_mechanism_elsewhere_is_a_warning(self) -> None:
        self.write_nova()
        self.agents.return_value = [_agent(socket.gethostname()),
                                    _agent('other', agent_type='OVN Controller agent')]
        self.assert_found('Nova: network agents', WARNING, 'other has another mechanism driver')

    def test_other_firewall_elsewhere_is_a_warning(self) -> None:
        self.write_nova()
        self.agents.return_value = [_agent(socket.gethostname()), _agent('same'),
                                    _agent('other', configurations={'ovs_hybrid_plug': True})]
        self.assert_found('Nova: network agents', WARNING, 'firewall_driver than')

    def test_dead_network_agent_is_a_warning(self) -> None:
        self.write_nova()
        self.agents.return_value = [_agent(socket.gethostname(), alive=False)]
        self.assert_found('Nova: network agents', WARNING, 'is down')

    def test_silent_neutron_is_a_warning(self) -> None:
        self.write_nova()
        self.agents.side_effect = keystone_exceptions.ConnectFailure('no route')
        self.assert_found('Nova: network agents', WARNING, 'no route')

    def test_default_output_is_a_table(self) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self.assertEqual(SUCCESS, main.main(['upgrade', 'check']))
        self.assertIn('Nova: configuration', printed.getvalue())

    @ddt.data(('transport_url = rabbit', 'x = rabbit', FAILURE, 'transport_url'),
              ('[service_auth]\nauth_type', '[service_auth]\nx', FAILURE, '[service_auth]'),
              ('[keystone_authtoken]\nauth_type', '[keystone_authtoken]\nx', WARNING,
               'cannot authenticate'),
              ('slots', 'sluts', WARNING, 'sluts'),
              ('slots = 50', 'slots = many', FAILURE, 'slots'))
    @ddt.unpack
    def test_wrong_option_of_the_engine_is_found(
            self, old: str, new: str, code: int, words: str) -> None:
        arguments = self.write_engine(_GOOD_ENGINE.replace(old, new))
        self.assert_found('Engine: configuration', code, words, *arguments)

    def test_database_without_tables_fails(self) -> None:
        self.assert_found('Engine: database', FAILURE, 'db sync', *self.write_engine())

    def test_new_installation_only_observes(self) -> None:
        self.assert_found('Engine: database', WARNING, 'only observe',
                          *self.make_engine(mode=None))

    def test_engine_that_hears_no_host_is_a_warning(self) -> None:
        self.assert_found('Engine: database', WARNING, 'no engine has heard any host',
                          *self.make_engine(heard=False))

    def test_api_that_is_not_in_the_catalogue_is_a_warning(self) -> None:
        self.session.auth = noauth.NoAuth(endpoint=None)
        self.assert_found('Engine: API', WARNING, 'openstack endpoint create',
                          *self.make_engine())

    def test_api_that_does_not_answer_at_its_endpoint_fails(self) -> None:
        self.api.shutdown()
        self.api.server_close()
        self.assert_found('Engine: API', FAILURE, 'http-socket', *self.make_engine())

    def test_silent_keystone_is_a_warning(self) -> None:
        self.session.auth = v3.Password('http://127.0.0.1:9/v3', username='u', password='p')
        self.assert_found('Engine: API', WARNING, 'Keystone does not answer',
                          *self.make_engine())

    def test_database_of_another_release_fails(self) -> None:
        arguments = self.make_engine()
        with mock.patch.object(migration, 'version', return_value='9999'):
            self.assert_found('Engine: database', FAILURE, 'newer release', *arguments)
        with mock.patch.object(migration, 'newest', return_value='9999'):
            self.assert_found('Engine: database', FAILURE, 'db sync', *arguments)

    def test_missing_connection_of_the_database_fails(self) -> None:
        self.assert_found('Engine: database', FAILURE, '[database] connection',
                          *self.write_engine(_GOOD_ENGINE.replace('connection =', 'x =')))

    @ddt.data(('"host:list": "role:auditor"\n', SUCCESS, 'fine'),
              ('"host:lst": "role:auditor"\n', WARNING, 'host:lst'),
              ('"host:list": "rule:auditors"\n', FAILURE, 'refer to'),
              ('"host:list": [\n', FAILURE, 'cannot be read'))
    @ddt.unpack
    def test_wrong_policy_is_found(self, text: str, code: int, words: str) -> None:
        (self.place / 'policy.yaml').write_text(text)
        self.assert_found('Engine: policies', code, words, *self.make_engine())

    def test_policies_in_json_fail(self) -> None:
        (self.place / 'policy.yaml').write_text('{"host:list": "role:auditor"}')
        self.assert_found('Engine: format of the policies', FAILURE, 'JSON',
                          *self.make_engine())

    @ddt.data(({'transfer_api_class': None}, FAILURE, 'transfer_api_class'),
              ({'volume_manager': None}, FAILURE, 'volume_manager'),
              ({'osapi_volume_extension':
                'specreds_cinder.api.extension.Superpositions'}, FAILURE, 'standard_extensions'),
              ({'enabled_backends': 'lvm'}, WARNING, 'no enabled back end'))
    @ddt.unpack
    def test_wrong_option_of_cinder_is_found(
            self, changed: dict[str, object], code: int, words: str) -> None:
        self.write_cinder(**changed)
        self.assert_found('Cinder: configuration', code, words)

    def test_cinder_without_the_plugin_succeeds(self) -> None:
        self.write('cinder.conf', '[DEFAULT]\nenabled_backends = lvm\n')
        self.assert_found('Cinder: configuration', SUCCESS, 'does not use')

    def test_missing_capabilities_in_ceph_fail(self) -> None:
        self.write_cinder()
        with mock.patch.object(_Ceph, 'refused', 'rm'):
            self.assert_found('Cinder: capabilities in Ceph', FAILURE, 'not allowed')
        with mock.patch.object(_Ceph, 'pool', 'others'):
            self.assert_found('Cinder: capabilities in Ceph', FAILURE, 'no pool volumes')

    @ddt.data(('rbd_blocklist_on_break_lock', 'false'), ('rbd_clone_copy_on_read', 'true'))
    @ddt.unpack
    def test_option_that_a_pool_sets_for_all_clients_fails(self, name: str, value: str) -> None:
        self.write_cinder()
        option = {'name': name, 'value': value, 'source': rbd.RBD_CONFIG_SOURCE_POOL}
        self.pool_options.return_value = [option]
        self.assert_found('Cinder: capabilities in Ceph', FAILURE,
                          f'rbd config pool rm volumes {name}')
        self.pool_options.return_value = [{**option, 'source': rbd.RBD_CONFIG_SOURCE_CONFIG}]
        self.assert_found('Cinder: capabilities in Ceph', SUCCESS, 'fine')

    @ddt.data(('transport_url =', 'x =', FAILURE, 'transport_url'),
              ('[cinder]\nauth_type', '[cinder]\nx', FAILURE, '[cinder]'),
              ('[specreds]\n', '[specreds]\nmerge_rate = 3\n', WARNING, 'merge_rate'),
              ('[specreds]\n', '[specreds]\nready_timeout = 9\n', WARNING, 'has no effect'),
              ('[specreds]\n', '[specreds]\nheartbeat_interval = soon\n', FAILURE,
               'heartbeat_interval'),
              ('[specreds]\n', '[specreds]\nheartbeat_interval = 0\n', WARNING, 'heartbeat'),
              ('ceph.conf', 'another.conf', FAILURE, 'another.conf is not there'),
              ('{driver}', 'libvirt.LibvirtDriver', SUCCESS, 'does not use'))
    @ddt.unpack
    def test_wrong_option_of_nova_is_found(
            self, old: str, new: str, code: int, words: str) -> None:
        self.write_nova(_GOOD_NOVA.replace(old, new))
        self.assert_found('Nova: configuration', code, words)

    @ddt.data('rbd_blocklist_on_break_lock = false', 'rbd_clone_copy_on_read = true')
    def test_harmful_option_of_ceph_is_a_warning(self, option: str) -> None:
        self.write_nova()
        self.write('ceph.conf', f'[client]\n{option.replace("_", " ")}\n')
        self.assert_found('Nova: configuration', WARNING, option)

    def test_cache_that_may_lose_flushed_writes_is_a_warning(self) -> None:
        path = self.place / 'ceph.conf'
        self.write_nova(f'{_GOOD_NOVA}[libvirt]\nimages_rbd_ceph_conf = {path}\n'
                        'disk_cachemodes = file=none,network=writeback\n')
        setting = 'rbd config pool set POOL rbd_cache_policy writethrough'
        self.assert_found('Nova: configuration', WARNING, setting)
        path.write_text('[client]\nrbd_cache_policy = writeback\n')
        self.assert_found('Nova: configuration', WARNING, setting)
        path.write_text('[client]\nrbd_cache_policy = writethrough\n')
        self.assert_found('Nova: configuration', SUCCESS, 'fine')

    def test_missing_dnsmasq_fails(self) -> None:
        self.write_nova()
        self.useFixture(fixtures.MonkeyPatch('specreds_nova.host.box.dhcp.missing',
                                             lambda: 'dnsmasq is not installed'))
        self.assert_found('Nova: configuration', FAILURE, 'dnsmasq is not installed')

    @ddt.data(('', '', SUCCESS), ('rabbit_quorum_queue = true', '', FAILURE),
              ('', 'amqp_durable_queues = true', FAILURE),
              ('rabbit_quorum_queue = true', 'amqp_durable_queues = true', SUCCESS),
              ('rabbit_transient_quorum_queue = true', '', SUCCESS))
    @ddt.unpack
    def test_engine_that_declares_the_exchange_of_nova_differently_fails(
            self, of_nova: str, of_engine: str, code: int) -> None:
        # A controller runs other services of Nova.
        self.write('nova.conf', f'[oslo_messaging_rabbit]\n{of_nova}\n')
        arguments = self.write_engine(
            f'{_GOOD_ENGINE}[oslo_messaging_rabbit]\n{of_engine}\n')
        self.assert_found('Engine: configuration', code,
                          'RabbitMQ refuses' if code else 'fine', *arguments)

    def test_missing_file_of_the_command_line_fails(self) -> None:
        self.assert_found('Nova: configuration', FAILURE, 'cannot be read',
                          '--nova-conf', str(self.place / 'nowhere.conf'))

    def test_driver_of_a_later_file_fails(self) -> None:
        """Debian's nova-compute-kvm has such a file, whose options override nova.conf."""
        self.write_nova()
        self.write('nova-compute.conf', '[DEFAULT]\ncompute_driver = libvirt.LibvirtDriver\n')
        self.assert_found('Nova: configuration', FAILURE,
                          'nova-compute.conf sets compute_driver = libvirt.LibvirtDriver')
        self.run_nova('--config-file', str(self.place / 'nova-compute.conf'),
                      f'--config-file={self.place / "nova.conf"}')
        self.assert_found('Nova: configuration', SUCCESS, 'fine')

    def test_files_of_the_running_process_count(self) -> None:
        self.write_nova(_GOOD_NOVA.replace('transport_url =', 'x ='))
        directory = self.place / 'more'
        directory.mkdir()
        self.write('more/broker.conf', '[DEFAULT]\ntransport_url = rabbit://\n')
        self.run_nova('--log-file', 'x', '--config-file', str(self.place / 'nova.conf'))
        self.assert_found('Nova: configuration', FAILURE, 'transport_url')
        self.run_nova('--config-file', str(self.place / 'nova.conf'),
                      '--config-dir', str(directory))
        self.assert_found('Nova: configuration', SUCCESS, 'fine')

    def test_python_that_does_not_import_the_driver_fails(self) -> None:
        self.write_nova()
        # Without site-packages, as without the file that names the hook.
        self.run_nova(python=self.make_program(
            'python3', f'exec {sys.executable} -I -S "$@"'))
        # Nor does this Python, if Nova is not in its environment.
        self.useFixture(fixtures.MockPatch('specreds_nova.status.nova.importlib.import_module',
                                           side_effect=ModuleNotFoundError('nova')))
        self.assert_found('Nova: configuration', FAILURE, 'ModuleNotFoundError')

    def test_python_of_this_installation_imports_the_driver(self) -> None:
        self.write_nova()
        self.run_nova(python=sys.executable)
        self.assert_found('Nova: configuration', SUCCESS, 'fine')

    def test_host_without_a_sentinel_fails(self) -> None:
        self.write_nova()
        (self.place / 'specreds/sentinel.json').unlink()
        self.assert_found('Nova: configuration', FAILURE, 'specreds-sentinel has never run')

    def test_qemu_without_rbd_is_a_warning(self) -> None:
        self.write_nova()
        self.make_program('qemu-img', "echo \"qemu-img: Unknown driver 'rbd'\" >&2; exit 1")
        self.assert_found('Nova: configuration', WARNING, 'qemu-block-extra')
        (self.place / 'qemu-img').unlink()
        self.assert_found('Nova: configuration', WARNING, 'qemu-img')
