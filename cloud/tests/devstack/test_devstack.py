# SPDX-License-Identifier: Apache-2.0
"""What ./run devstack does with its nodes, in which order."""

from collections.abc import Callable
import threading
from unittest import mock

import fixtures

from cloud import commands
from cloud.devstack import container
from cloud.devstack import devstack
from cloud.devstack import layout
from cloud.devstack import network
from cloud.devstack import node
from cloud.devstack import repositories
from cloud.devstack import stacking
from cloud.devstack import tempest
from cloud.tests.devstack import base


class DevstackTest(base.DevstackTestCase):

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
        second = self.files.others[0]
        second.data.mkdir(parents=True)
        self.files.stacked.touch()
        self.record_commands()
        with mock.patch.object(container.Container, 'leader', 7):
            self.assertFalse(self.stack.healthy)
            self.assertEqual('not run', dict(self.stack.status())['devstack2: stack.sh'])
            self.assertRaises(commands.CloudError, self.stack.test, tempest.SETS,
                              commands.silent)
            second.stacked.touch()
            self.assertTrue(self.stack.healthy)

    def test_engine_stops_before_any_node(self) -> None:
        for files in self.files.others:
            files.data.mkdir(parents=True)
        calls = self.record_commands()
        stopped: list[str] = []
        with mock.patch.object(container.Container, 'leader', 7), \
                mock.patch.object(container.Container, 'stop', autospec=True,
                                  side_effect=lambda node, _: stopped.append(node.name)):
            self.stack.down(commands.silent)
        self.assertEqual(['systemctl', 'stop', 'devstack@specreds-engine'], calls[0][-3:])
        self.assertEqual({'devstack3', 'devstack2', 'devstack'}, set(stopped))

    def test_nodes_stop_at_the_same_time(self) -> None:
        for files in self.files.others:
            files.data.mkdir(parents=True)
        self.record_commands()
        together = threading.Barrier(3)
        with mock.patch.object(container.Container, 'leader', 7), \
                mock.patch.object(container.Container, 'stop', autospec=True,
                                  side_effect=lambda *_: together.wait(60)):
            self.stack.down(commands.silent)
        self.assertFalse(together.broken)

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


class SecondNodeTest(base.DevstackTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.first, self.second = (
            node.Node(files, mock.create_autospec(network.Network, instance=True))
            for files in (self.files, self.files.others[0]))

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
        root = self.files.others[0].root.path
        (root / 'etc/ceph').mkdir(parents=True)
        (root / 'etc/ceph/old').touch()
        (root / 'opt/stack').mkdir(parents=True)
        with mock.patch.object(container.Container, 'run'):
            self.second.follow(self.first)
        self.assertEqual(['ceph.conf'], [path.name for path in (root / 'etc/ceph').iterdir()])
        self.assertEqual('opt/stack/.cache/pip/wheel',
                         (root / 'opt/stack/.cache/pip/wheel').read_text())

    def test_is_a_new_host_to_nova_at_each_attempt(self) -> None:
        calls = self.record_commands()
        with mock.patch.object(container.Container, 'leader', 7):
            self.second.follow(self.first)
        script = next(call[-1] for call in calls if call[0] == 'nsenter')
        self.assertIn('compute service list --service nova-compute --host devstack2 ', script)
        self.assertIn('compute service delete', script)


class UpTest(base.DevstackTestCase):

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
        devstack.Devstack(self.files).up(count, base.SUBNET, repos, None, commands.silent)
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

    def test_third_node_is_added_to_two_that_run(self) -> None:
        self.up(2)
        self.assertEqual(
            ['start devstack', 'start devstack2', 'connect devstack', 'admit devstack',
             'connect devstack2', 'admit devstack2', 'start devstack3', 'prepare devstack3'],
            self.up(3)[:8])

    def test_nodes_that_exist_are_started_again(self) -> None:
        self.up(3)
        self.assertEqual(['start devstack', 'start devstack2', 'start devstack3'], [
            done for done in self.up(1) if done.startswith('start')])
