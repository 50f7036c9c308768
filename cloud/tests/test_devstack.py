# SPDX-License-Identifier: Apache-2.0
"""What ./run devstack writes, chooses and takes back."""

from collections.abc import Callable
import io
import os
import pathlib
import signal
import subprocess
from unittest import mock

import ddt
import fixtures
import testtools

from cloud import commands
from cloud.devstack import cli
from cloud.devstack import container
from cloud.devstack import contents
from cloud.devstack import devstack
from cloud.devstack import layout
from cloud.devstack import local_conf
from cloud.devstack import network
from cloud.devstack import node
from cloud.devstack import repositories
from cloud.devstack import stacking
from cloud.devstack import tempest
from cloud.matrix import jail
from cloud.matrix import root as roots

_SUBNET = '198.18.7.0/24'
_NODES = ('198.18.7.2', '198.18.7.3')
_TEMPEST_OUTPUT = """\
{0} setUpClass (tempest_plugin.scenario.test_killed.KilledTest) [0.000000s] ... SKIPPED: no command
{0} tempest_plugin.api.test_recoveries.Test.test_list[id-1] [0.234530s] ... ok
{1} tempest_plugin.api.test_recoveries.Test.test_show[id-2,smoke] [10.2s] ... FAILED
 - Passed: 1
 - Skipped: 1
 - Expected Fail: 2
 - Unexpected Success: 0
 - Failed: 1
"""


class _Base(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.files = layout.Layout(self.data / 'devstack', self.data / 'cache')

    def record_commands(self, **answers: str) -> list[list[str]]:
        """Have no program run, and return the list that collects the calls."""
        calls: list[list[str]] = []

        def run(argv: list[str], *_: object, **__: object) -> str:
            calls.append(list(argv))
            return answers.get(argv[0], '')

        self.useFixture(fixtures.MonkeyPatch('cloud.commands.run', run))
        return calls


class LayoutTest(_Base):

    def test_addresses(self) -> None:
        self.assertEqual(layout.Addresses('198.18.7.1', _NODES, 24), layout.addresses(_SUBNET))

    def test_subnet_without_room(self) -> None:
        for subnet in ('198.18.7.0/30', '198.18.7.1/24', 'x'):
            self.assertRaises(ValueError, layout.addresses, subnet)

    def test_fresh_root_is_shared_with_the_matrix(self) -> None:
        matrix = roots.Root(self.data, layout.PLATFORM)
        self.assertEqual(matrix.tarball, self.files.root.tarball)
        self.assertNotEqual(matrix.path, self.files.root.path)

    def test_second_node_shares_nothing_else_with_the_first(self) -> None:
        second = self.files.second
        self.assertEqual(self.files.root.tarball, second.root.tarball)
        for name in ('name', 'stacked', 'begun', 'logs', 'stack_log'):
            self.assertNotEqual(getattr(self.files, name), getattr(second, name))


class NetworkTest(_Base):

    def setUp(self) -> None:
        super().setUp()
        self.forwarding = self.data / 'forwarding'
        self.forwarding.write_text('0\n')
        self.devices = {'up0'}
        for name, new in (('_forwarding', lambda _device: self.forwarding),
                          ('_exists', lambda device: device in self.devices)):
            self.useFixture(fixtures.MonkeyPatch(f'cloud.devstack.network.{name}', new))
        self.network = network.Network(self.data / 'network.json')

    def test_uplink(self) -> None:
        self.assertEqual('eth0', network.uplink('192.0.2.255 via 10.0.0.1 dev eth0 src 10.0.0.9'))
        self.assertRaises(commands.CloudError, network.uplink, 'unreachable 192.0.2.255')

    def test_only_the_table_of_its_own_is_changed(self) -> None:
        text = network.rules(network.Changes(_SUBNET, 'up0', '0'))
        self.assertEqual([f'table ip {network.TABLE} {{'],
                         [line for line in text.splitlines() if line.startswith('table')])
        self.assertIn(f'ip saddr {_SUBNET} oifname "up0" masquerade', text)
        self.assertIn(f'ip daddr {_SUBNET} iifname "up0" drop', text)

    def test_down_takes_back_what_up_did(self) -> None:
        calls = self.record_commands(ip='192.0.2.255 dev up0 src 10.0.0.9',
                                     nft=f'table ip other\ntable ip {network.TABLE}\n')
        self.network.up(_SUBNET)
        self.devices.add(network.BRIDGE)
        self.assertEqual('1', self.forwarding.read_text())
        self.assertEqual(network.Changes(_SUBNET, 'up0', '0'), self.network.changes)
        self.assertIn(['ip', 'link', 'add', network.BRIDGE, 'type', 'bridge'], calls)
        calls.clear()
        self.network.down()
        self.assertEqual('0', self.forwarding.read_text())
        self.assertIn(['ip', 'link', 'delete', network.BRIDGE], calls)
        self.assertIn(['nft', 'delete', 'table', 'ip', network.TABLE], calls)
        self.assertIsNone(self.network.changes)

    def test_second_up_keeps_the_former_forwarding(self) -> None:
        calls = self.record_commands(ip='192.0.2.255 dev up0')
        self.network.up(_SUBNET)
        self.devices.add(network.BRIDGE)
        calls.clear()
        self.network.up(_SUBNET)
        self.assertNotIn(['ip', 'link', 'add', network.BRIDGE, 'type', 'bridge'], calls)
        self.network.down()
        self.assertEqual('0', self.forwarding.read_text())

    def test_down_without_up_changes_nothing(self) -> None:
        calls = self.record_commands()
        self.network.down()
        self.assertEqual([], calls)

    def test_each_node_has_an_address_of_its_own(self) -> None:
        calls = self.record_commands(ip='192.0.2.255 dev up0')
        self.network.up(_SUBNET)
        for index, address in enumerate(_NODES):
            calls.clear()
            self.network.attach(7, index)
            self.assertIn(['ip', 'link', 'set', f'{layout.NODES[index]}-data', 'master',
                           network.BRIDGE, 'up'], calls)
            self.assertTrue(any(f'{address}/24' in call for call in calls))
            self.assertEqual(['default', 'via', '198.18.7.1'], calls[-1][-3:])

    def test_another_subnet_replaces_the_former(self) -> None:
        self.record_commands(ip='192.0.2.255 dev up0')
        self.network.up(_SUBNET)
        self.network.up('198.18.8.0/24')
        changes = self.network.changes
        assert changes
        self.assertEqual(('198.18.8.0/24', '0'), (changes.subnet, changes.forwarding))


@ddt.ddt
class ContainerTest(_Base):

    def process(self, text: str) -> pathlib.Path:
        (self.data / 'status').write_text(text)
        return self.data

    @ddt.data(('Name:\tsystemd\nNSpid:\t4711\t1\n', True),
              ('Name:\tsystemd\nNSpid:\t1\n', False),
              ('Name:\tsystemd\nNSpid:\t4711\t17\n', False),
              ('Name:\tapt-get\nNSpid:\t4711\t1\n', False))
    @ddt.unpack
    def test_leader(self, text: str, expected: bool) -> None:
        self.assertIs(expected, container.is_leader(self.process(text)))

    def test_process_that_has_ended_is_no_leader(self) -> None:
        self.assertFalse(container.is_leader(self.data / 'ended'))

    def test_program_needs_a_container_that_runs(self) -> None:
        stopped = container.Container('devstack', self.data / 'root', self.data / 'log')
        error = self.assertRaises(commands.CloudError, stopped.command, ['true'])
        self.assertIn('./run devstack up', str(error))

    def test_program_gets_no_variables_of_this_process(self) -> None:
        with mock.patch.dict(os.environ, {'SECRET': 'x', 'PIP_CERT': '/c'}), \
                mock.patch.object(container.Container, 'leader', 7):
            argv = container.Container(
                'devstack', self.data, self.data / 'log').as_stack('./stack.sh')
        self.assertEqual(['nsenter', '--target', '7'], argv[:3])
        self.assertIn('PIP_CERT=/c', argv)
        self.assertNotIn('SECRET=x', argv)
        self.assertEqual(['su', '-', 'stack', '-c', './stack.sh'], argv[-5:])

    def test_network_of_its_own(self) -> None:
        self.assertIn('--network-bridge=br', container.nspawn('name', self.data, 'br', []))

    def test_shared_directories_cannot_be_written(self) -> None:
        argv = container.nspawn('devstack2', self.data, 'br', [(self.data, layout.GIT)])
        self.assertEqual(f'--bind-ro={self.data}:/opt/git', argv[-1])
        self.assertIn('--machine=devstack2', argv)
        self.assertIn('--network-veth-extra=devstack2-data:data0', argv)

    def test_stop(self) -> None:
        running = container.Container('devstack', self.data / 'root', self.data / 'log')
        for kill, number in ((False, signal.SIGRTMIN + 3), (True, signal.SIGKILL)):
            leaders = mock.PropertyMock(side_effect=[7, None])
            with mock.patch.object(container.Container, 'leader', leaders), \
                    mock.patch.object(os, 'kill') as send:
                running.stop(kill)
            send.assert_called_once_with(7, number)

    def test_failed_start_names_the_log(self) -> None:
        failed = container.Container('devstack', self.data / 'root', self.data / 'log')
        with mock.patch.object(subprocess, 'Popen') as start:
            start.return_value.poll.return_value = 1
            error = self.assertRaises(commands.CloudError, failed.start, 'br', [],
                                      mock.Mock())
        self.assertIn(str(self.data / 'log'), str(error))


class RepositoryTest(_Base):

    def test_addresses(self) -> None:
        self.assertEqual({'nova': '/a=b', 'devstack': 'https://d.example/x'}, repositories.given(
            ['nova=/x', 'devstack=https://d.example/x', 'nova=/a=b']))

    def test_unknown_or_malformed(self) -> None:
        for word in ('horizon=/x', 'nova', 'nova='):
            error = self.assertRaises(commands.CloudError, repositories.given, [word])
            self.assertIn('NAME=ADDRESS', str(error))

    def test_constraints_are_those_of_this_project(self) -> None:
        theirs = ('oslo.config===10.5.0\nSQLAlchemy===2.0.1;python_version=="3.10"\n'
                  'SQLAlchemy===2.0.9\nsetuptools===1\nother===3\n')
        ours = '# tested\noslo-config==10.4.0\nsqlalchemy==2.0.5\nsetuptools==80\n'
        self.assertEqual('oslo.config===10.4.0\nSQLAlchemy===2.0.5\nsetuptools===1\nother===3\n',
                         repositories.constrain(theirs, ours))

    def test_each_package_has_a_version(self) -> None:
        versions = repositories.pins((roots.PROJECT / 'constraints.txt').read_text())
        self.assertLessEqual(set(repositories.PACKAGES.values()), set(versions))

    def test_only_what_is_local_has_another_address(self) -> None:
        self.assertEqual({}, repositories.Repositories(self.files, {}, False).addresses())
        addresses = repositories.Repositories(self.files, {'devstack': '/x'}, True).addresses()
        self.assertEqual('file:///opt/git/nova.git', addresses['nova'])
        self.assertEqual({'devstack', *repositories.PACKAGES}, set(addresses))

    def test_failed_package_names_the_log(self) -> None:
        self.useFixture(fixtures.MonkeyPatch('cloud.matrix.jail.run', lambda *_: 1))
        self.record_commands()
        repos = repositories.Repositories(self.files, {}, True)
        error = self.assertRaises(commands.CloudError, repos.make, commands.silent)
        self.assertIn('repositories.log', str(error))


class LocalConfTest(_Base):

    def test_developers_repositories_without_settings(self) -> None:
        text = local_conf.text(0, _NODES, {})
        self.assertIn('\nHOST_IP=198.18.7.2\n', text)
        self.assertIn(f'enable_plugin devstack-plugin-ceph {repositories.DEVELOPERS}/', text)
        self.assertNotIn('_REPO=', text)
        self.assertNotIn('IMAGE_URLS', text)

    def test_packages(self) -> None:
        addresses = repositories.Repositories(self.files, dict.fromkeys(
            ('devstack', 'devstack-plugin-ceph', 'requirements', 'os-test-images'), '/x'),
            True).addresses()
        text = local_conf.text(0, _NODES, addresses, 'abc')
        for line in ('ETCD_SHA256=abc', 'OSTESTIMAGES_REPO=file:///opt/git/os-test-images.git',
                     'PLACEMENT_REPO=file:///opt/git/placement.git',
                     'enable_plugin devstack-plugin-ceph file:///opt/git/devstack-plugin-ceph.git',
                     'IMAGE_URLS=file:///opt/git/images/g1.img', 'DEFAULT_IMAGE_NAME=g1'):
            self.assertIn(f'\n{line}\n', text)

    def test_ceph_comes_first(self) -> None:
        plugins = [line.split()[1] for line in local_conf.text(0, _NODES, {}).splitlines()
                   if line.startswith('enable_plugin')]
        self.assertEqual(['devstack-plugin-ceph', 'specreds'], plugins)


    def test_second_node_is_a_compute_host_of_the_first(self) -> None:
        text = local_conf.text(1, _NODES, {}, key='some-id')
        for line in ('HOST_IP=198.18.7.3', 'CINDER_CEPH_UUID=some-id',
                     'SERVICE_HOST=198.18.7.2', 'REMOTE_CEPH=True',
                     'ENABLED_SERVICES=n-cpu,q-agt,placement-client'):
            self.assertIn(f'\n{line}\n', text)
        self.assertNotIn('SPECREDS_TEMPEST', text)

    def test_guests_without_ssh_are_asked_by_a_command(self) -> None:
        for checksum in ('', 'abc'):
            text = local_conf.text(0, _NODES, {}, checksum)
            self.assertIs(bool(checksum), 'guest_command = ' in text)
            self.assertIs(bool(checksum), 'TEMPEST_RUN_VALIDATION=False' in text)

    def test_servers_start_on_the_second_node_first(self) -> None:
        self.assertEqual([True, False], ['reserved_host_memory_mb' in local_conf.text(
            index, _NODES, {}) for index in range(2)])

    def test_tempest_may_kill_hosts(self) -> None:
        text = local_conf.text(0, _NODES, {})
        self.assertIn('\nSPECREDS_TEMPEST_DESTRUCTIVE=True\n', text)
        self.assertIn('SPECREDS_TEMPEST_KILL_COMMAND='
                      '"$DEST/specreds/devstack/tools/host kill {host}"', text)
        self.assertTrue(os.access(roots.PROJECT / 'devstack/tools/host', os.X_OK))


class ContentsTest(_Base):

    def test_files_and_stand_ins(self) -> None:
        self.useFixture(fixtures.MonkeyPatch('cloud.matrix.jail.run', lambda *_: 0))
        root = self.files.root.path
        (root / 'usr/local/bin').mkdir(parents=True)
        (root / 'usr/sbin').mkdir()
        for _ in range(2):
            contents.fill(self.files, _NODES, commands.silent)
        self.assertEqual('devstack\n', (root / 'etc/hostname').read_text())
        self.assertTrue((root / 'etc/hosts').read_text().endswith(
            '198.18.7.2 devstack\n198.18.7.3 devstack2\n'))
        self.assertEqual('/opt/stand-ins/curl', os.readlink(root / 'usr/local/bin/curl'))
        self.assertTrue(os.access(root / 'opt/stand-ins/cephadm', os.X_OK))

    def test_failed_installation_names_the_log(self) -> None:
        self.useFixture(fixtures.MonkeyPatch('cloud.matrix.jail.run', lambda *_: 1))
        for _ in range(2):
            error = self.assertRaises(commands.CloudError, contents.fill, self.files, _NODES,
                                      commands.silent)
            self.assertIn('packages.log', str(error))

    def test_registries_are_reached_as_from_here(self) -> None:
        variables = {'PIP_INDEX_URL': 'https://i.example/', 'TERM': 'x', 'SECRET': 'y'}
        self.assertEqual({'PIP_INDEX_URL': 'https://i.example/'}, jail.registries(variables))


class StackingTest(_Base):

    def setUp(self) -> None:
        super().setUp()
        self.files.logs.mkdir(parents=True)
        self.steps = self.files.inside(layout.STACK_LOG).parent
        self.steps.mkdir(parents=True)
        self.container = mock.create_autospec(container.Container, instance=True)
        self.stack = stacking.Stacking(self.files, self.container)

    def script(self, text: str) -> None:
        self.container.as_stack.side_effect = lambda script: [
            'sh', '-c', text, script.rpartition('/')[2]]

    def test_success_is_remembered(self) -> None:
        self.script('echo "This is your host IP address"')
        shown: list[str] = []
        self.stack.run(shown.append)
        self.assertTrue(self.stack.done)
        self.assertEqual('This is your host IP address', shown[-1])

    def test_failure_shows_the_end_of_the_log_and_names_it(self) -> None:
        self.script('echo broken; exit 3')
        error = self.assertRaises(commands.CloudError, self.stack.run, commands.silent)
        self.assertIn(str(self.files.stack_log), str(error))
        self.assertTrue(str(error).endswith('broken'))
        self.assertFalse(self.stack.done)

    def test_unstack_comes_before_a_second_attempt(self) -> None:
        self.script('echo "ran $0"; [ "$0" = unstack.sh ]')
        self.assertRaises(commands.CloudError, self.stack.run, commands.silent)
        self.assertEqual('ran stack.sh\n', self.files.stack_log.read_text())
        self.assertRaises(commands.CloudError, self.stack.run, commands.silent)
        self.assertEqual('ran unstack.sh\nran stack.sh\n', self.files.stack_log.read_text())

    def test_what_unstack_removes_is_put_back_before_stack(self) -> None:
        ceph = self.data / 'ceph.conf'
        self.script(f'[ "$0" = stack.sh ] && exec cat {ceph}; rm -f {ceph}')
        self.files.begun.touch()
        ceph.touch()
        self.stack.run(commands.silent, before=ceph.touch)
        self.assertTrue(self.stack.done)

    def test_steps(self) -> None:
        (self.steps / 'stack.sh.log.1.summary.1').write_text('2026 | of an earlier run\n')
        summary = stacking.Summary(self.steps)
        self.assertEqual([], summary.steps())
        fresh = self.steps / 'stack.sh.log.2.summary.2'
        fresh.write_text('2026-01-01 00:00:00 | Starting RabbitMQ\n')
        self.assertEqual(['Starting RabbitMQ'], summary.steps())
        with fresh.open('a') as file:
            file.write('2026-01-01 00:00:01 | Installing')
        self.assertEqual([], summary.steps())
        with fresh.open('a') as file:
            file.write(' Ceph\n')
        self.assertEqual(['Installing Ceph'], summary.steps())


class TempestTest(_Base):

    def setUp(self) -> None:
        super().setUp()
        self.container = mock.create_autospec(container.Container, instance=True)

    def run_tests(self, text: str) -> tempest.Totals:
        self.container.as_stack.return_value = ['sh', '-c', text]
        self.shown: list[str] = []
        return tempest.run(self.container, 'title', 'regex', self.data / 'log', self.shown.append)

    def test_totals(self) -> None:
        totals = self.run_tests(f"cat <<'END'\n{_TEMPEST_OUTPUT}\nEND\nexit 1")
        self.assertEqual(tempest.Totals(3, 1, 1), totals)
        self.assertEqual('3 passed, 1 failed, 1 skipped', str(totals))
        self.assertIn('title: ok      tempest_plugin.api.test_recoveries.Test.test_list[id-1]',
                      self.shown)
        self.assertIn('title: failed  '
                      'tempest_plugin.api.test_recoveries.Test.test_show[id-2,smoke]', self.shown)

    def test_tempest_that_does_not_run_names_the_log(self) -> None:
        for text in ('exit 1', 'exit 0', 'echo " - Passed: 1"; exit 2'):
            error = self.assertRaises(commands.CloudError, self.run_tests, text)
            self.assertIn(str(self.data / 'log'), str(error))


class DevstackTest(_Base):

    def setUp(self) -> None:
        super().setUp()
        self.stack = devstack.Devstack(self.files)

    def test_status_of_nothing(self) -> None:
        self.assertEqual({'network': 'none', 'devstack: root': 'none',
                          'devstack: container': 'stopped', 'devstack: stack.sh': 'not run'},
                         dict(self.stack.status()))
        self.assertFalse(self.stack.healthy)

    def test_tests_need_a_stack(self) -> None:
        error = self.assertRaises(commands.CloudError, self.stack.test, tempest.SETS,
                                  commands.silent)
        self.assertIn('./run devstack up', str(error))

    def test_failed_service_is_not_healthy(self) -> None:
        self.files.data.mkdir()
        self.files.stacked.touch()
        with mock.patch.object(container.Container, 'leader', 7):
            for state, expected in (('active', True), ('failed', False)):
                self.record_commands(nsenter=f'devstack@x.service loaded {state} {state} x\n')
                self.assertIs(expected, self.stack.healthy)

    def test_second_node_that_failed_is_not_healthy(self) -> None:
        self.files.second.data.mkdir(parents=True)
        self.files.stacked.touch()
        self.record_commands()
        with mock.patch.object(container.Container, 'leader', 7):
            self.assertFalse(self.stack.healthy)
            self.assertEqual('not run', dict(self.stack.status())['devstack2: stack.sh'])
            self.assertRaises(commands.CloudError, self.stack.test, tempest.SETS,
                              commands.silent)
            self.files.second.stacked.touch()
            self.assertTrue(self.stack.healthy)

    def test_engine_stops_before_the_second_node(self) -> None:
        self.files.second.data.mkdir(parents=True)
        calls = self.record_commands()
        stopped: list[str] = []
        with mock.patch.object(container.Container, 'leader', 7), \
                mock.patch.object(container.Container, 'stop', autospec=True,
                                  side_effect=lambda node, _: stopped.append(node.name)):
            self.stack.down(commands.silent)
        self.assertEqual(['systemctl', 'stop', 'devstack@specreds-engine'], calls[0][-3:])
        self.assertEqual(['devstack2', 'devstack'], stopped)

    def test_down_and_wipe_of_nothing(self) -> None:
        calls = self.record_commands()
        self.stack.down(commands.silent)
        self.stack.wipe(False, commands.silent)
        self.assertEqual([], calls)

    def test_wipe_does_not_wait_for_services(self) -> None:
        self.files.data.mkdir()
        with mock.patch.object(container.Container, 'leader', 7), \
                mock.patch.object(container.Container, 'stop') as stop:
            self.stack.down(commands.silent)
            stop.assert_called_once_with(False)
            self.stack.wipe(False, commands.silent)
            stop.assert_called_with(True)

    def test_wipe_keeps_the_cache_unless_told(self) -> None:
        tarball = self.files.root.tarball
        tarball.parent.mkdir(parents=True)
        tarball.touch()
        for cached in (False, True):
            self.files.data.mkdir()
            self.stack.wipe(cached, commands.silent)
            self.assertFalse(self.files.data.exists())
            self.assertIs(not cached, tarball.exists())


class SecondNodeTest(_Base):

    def setUp(self) -> None:
        super().setUp()
        self.first, self.second = (
            node.Node(files, mock.create_autospec(network.Network, instance=True))
            for files in (self.files, self.files.second))

    def test_has_the_first_ones_name_of_the_key(self) -> None:
        conf = self.files.inside(layout.NOVA_CONF)
        conf.parent.mkdir(parents=True)
        conf.write_text('[libvirt]\nrbd_user = cinder\n')
        self.assertRaises(commands.CloudError, getattr, self.first.stacking, 'key')
        conf.write_text('[libvirt]\nrbd_user = cinder\nrbd_secret_uuid = some-id\n')
        self.assertEqual('some-id', self.first.stacking.key)

    def test_has_the_first_ones_ceph_and_downloads(self) -> None:
        for name in ('etc/ceph/ceph.conf', 'opt/stack/.cache/pip/wheel'):
            path = self.files.root.path / name
            path.parent.mkdir(parents=True)
            path.write_text(name)
        root = self.files.second.root.path
        (root / 'etc/ceph').mkdir(parents=True)
        (root / 'etc/ceph/old').touch()
        (root / 'opt/stack').mkdir(parents=True)
        self.second.follow(self.first)
        self.assertEqual(['ceph.conf'], [path.name for path in (root / 'etc/ceph').iterdir()])
        self.assertEqual('opt/stack/.cache/pip/wheel',
                         (root / 'opt/stack/.cache/pip/wheel').read_text())


class UpTest(_Base):

    def setUp(self) -> None:
        super().setUp()
        self.done: list[str] = []
        self.record_commands()
        for case, names in ((node.Node, ('start', 'follow', 'connect', 'admit')),
                            (stacking.Stacking, ('prepare', 'run'))):
            for name in names:
                self.useFixture(fixtures.MockPatchObject(
                    case, name, autospec=True, side_effect=self.recorder(name)))
        for patched in (mock.patch.object(network.Network, 'up'),
                        mock.patch.object(stacking.Stacking, 'key', 'some-id'),
                        mock.patch.object(container.Container, 'leader', 7)):
            patched.start()
            self.addCleanup(patched.stop)

    def recorder(self, name: str) -> Callable[..., None]:
        def record(self_: node.Node | stacking.Stacking, *_: object,
                   before: Callable[[], None] = lambda: None) -> None:
            before()
            files = self_.files if isinstance(self_, node.Node) else self_._files
            files.data.mkdir(parents=True, exist_ok=True)
            if name == 'run':
                files.stacked.touch()
            self.done.append(f'{name} {files.name}')
        return record

    def up(self, count: int) -> list[str]:
        """Return what happens, in order."""
        self.done.clear()
        repos = mock.create_autospec(repositories.Repositories, instance=True)
        devstack.Devstack(self.files).up(count, _SUBNET, repos, None, commands.silent)
        return list(self.done)

    def test_second_node_follows_the_first(self) -> None:
        self.assertEqual(
            ['start devstack', 'prepare devstack', 'run devstack',
             'start devstack2', 'prepare devstack2', 'follow devstack2', 'run devstack2',
             'connect devstack', 'admit devstack', 'connect devstack2', 'admit devstack2'],
            self.up(2))

    def test_second_node_is_added_to_a_first_that_runs(self) -> None:
        self.assertNotIn('start devstack2', self.up(1))
        self.assertEqual(['start devstack', 'start devstack2', 'prepare devstack2'],
                         self.up(2)[:3])

    def test_second_node_that_exists_is_started_again(self) -> None:
        self.up(2)
        self.assertEqual(['start devstack', 'start devstack2', 'connect devstack'],
                         self.up(1)[:3])


class CommandLineTest(_Base):

    def run_cli(self, *words: str, **variables: str) -> int:
        args = cli.parser({'SPECREDS_DATA': str(self.data), **variables}).parse_args(words)
        return cli.run(args, commands.silent)

    def test_only_root(self) -> None:
        with mock.patch.object(os, 'geteuid', return_value=1000):
            self.assertRaises(commands.CloudError, self.run_cli, 'status')

    @mock.patch.object(os, 'geteuid', return_value=0)
    @mock.patch.object(devstack.Devstack, 'up')
    def test_up(self, up: mock.Mock, _root: mock.Mock) -> None:
        self.assertEqual(0, self.run_cli('up'))
        self.assertEqual((1, layout.DEFAULT_SUBNET), up.call_args.args[:2])
        self.assertEqual({}, up.call_args.args[2].addresses())
        self.run_cli('up', '--nodes', '2', '--repository', 'nova=/new', '--subnet', _SUBNET,
                     **{cli.REPOSITORIES: 'nova=/old devstack=/d', cli.FROM_PACKAGES: '1'})
        count, subnet, repos, mirror = up.call_args.args[:4]
        self.assertEqual((2, _SUBNET, True, None),
                         (count, subnet, repos.from_packages, mirror))
        self.assertEqual({'devstack', *repositories.PACKAGES}, set(repos.addresses()))

    @mock.patch.object(os, 'geteuid', return_value=0)
    def test_subnet_is_checked(self, _root: mock.Mock) -> None:
        error = self.assertRaises(commands.CloudError, self.run_cli, 'up', '--subnet', 'x')
        self.assertIn('--subnet x', str(error))

    @mock.patch.object(os, 'geteuid', return_value=0)
    @mock.patch.object(devstack.Devstack, 'test')
    def test_failed_test_is_the_exit_status(self, test: mock.Mock, _root: mock.Mock) -> None:
        for failed in (0, 1):
            test.return_value = {'chosen': tempest.Totals(1, failed, 0)}
            with mock.patch('sys.stdout', io.StringIO()) as output:
                self.assertEqual(failed, self.run_cli('test', 'tempest_plugin.api'))
            self.assertIn(f'chosen: 1 passed, {failed} failed', output.getvalue())
        self.assertEqual({'chosen': 'tempest_plugin.api'}, test.call_args.args[0])

    @mock.patch.object(os, 'geteuid', return_value=0)
    def test_status_of_nothing(self, _root: mock.Mock) -> None:
        with mock.patch('sys.stdout', io.StringIO()):
            self.assertEqual(3, self.run_cli('status'))
