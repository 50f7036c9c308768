# SPDX-License-Identifier: Apache-2.0
"""What a node contains: local.conf, and files."""

from collections.abc import Sequence
import os
import pathlib
import re

import fixtures

from cloud import commands
from cloud.devstack import contents
from cloud.devstack import local_conf
from cloud.devstack import repositories
from cloud.matrix import jail
from cloud.matrix import root as roots
from cloud.tests.devstack import base


class LocalConfTest(base.DevstackTestCase):

    def test_developers_repositories_without_settings(self) -> None:
        text = local_conf.text(0, base.NODES, {})
        self.assertIn('\nHOST_IP=198.18.7.2\n', text)
        self.assertIn(f'enable_plugin devstack-plugin-ceph {repositories.DEVELOPERS}/', text)
        self.assertNotIn('_REPO=', text)
        self.assertNotIn('IMAGE_URLS', text)

    def test_packages(self) -> None:
        addresses = repositories.Repositories(self.files, dict.fromkeys(
            ('devstack', 'devstack-plugin-ceph', 'requirements', 'os-test-images'), '/x'),
            True).addresses()
        text = local_conf.text(0, base.NODES, addresses, True)
        for line in ('OSTESTIMAGES_REPO=file:///opt/git/os-test-images.git',
                     'PLACEMENT_REPO=file:///opt/git/placement.git',
                     'enable_plugin devstack-plugin-ceph file:///opt/git/devstack-plugin-ceph.git',
                     'IMAGE_URLS=file:///opt/git/images/g1.img', 'DEFAULT_IMAGE_NAME=g1'):
            self.assertIn(f'\n{line}\n', text)

    def test_ceph_comes_first(self) -> None:
        plugins = [line.split()[1] for line in local_conf.text(0, base.NODES, {}).splitlines()
                   if line.startswith('enable_plugin')]
        self.assertEqual(['devstack-plugin-ceph', 'specreds'], plugins)

    def test_other_nodes_are_compute_hosts_of_the_first(self) -> None:
        for index, address in ((1, '198.18.7.3'), (2, '198.18.7.4')):
            text = local_conf.text(index, base.NODES, {}, key='some-id')
            for line in (f'HOST_IP={address}', 'CINDER_CEPH_UUID=some-id',
                         'SERVICE_HOST=198.18.7.2', 'REMOTE_CEPH=True',
                         'ENABLED_SERVICES=n-cpu,placement-client,q-agt'):
                self.assertIn(f'\n{line}\n', text)
            self.assertNotIn('SPECREDS_TEMPEST', text)

    def test_ovn_on_all_nodes(self) -> None:
        first, second = (local_conf.text(index, base.NODES, {}, network='ovn')
                         for index in range(2))
        for text in (first, second):
            self.assertIn('\nQ_AGENT=ovn\n', text)
        services, = (line for line in second.splitlines() if line.startswith('ENABLED_SERVICES='))
        self.assertIn('ovn-controller', services)
        self.assertNotIn('q-agt', services)
        self.assertNotIn('Q_AGENT', local_conf.text(0, base.NODES, {}))

    def test_guests_without_ssh_are_asked_by_a_command(self) -> None:
        for packages in (False, True):
            text = local_conf.text(0, base.NODES, {}, packages)
            self.assertIs(packages, 'guest_command = ' in text)
            self.assertIs(packages, 'TEMPEST_RUN_VALIDATION=False' in text)

    def test_servers_start_on_the_first_node_last(self) -> None:
        self.assertEqual([True, False, False], ['reserved_host_memory_mb' in local_conf.text(
            index, base.NODES, {}) for index in range(3)])

    def test_client_is_started_once(self) -> None:
        self.assertEqual([True, False, False], [
            '\nenable_service openstack-cli-server\n' in local_conf.text(index, base.NODES, {})
            for index in range(3)])

    def test_services_have_time_to_start(self) -> None:
        for index in range(3):
            self.assertIn('\nSERVICE_TIMEOUT=600\n', local_conf.text(index, base.NODES, {}))

    def test_tempest_may_kill_hosts(self) -> None:
        text = local_conf.text(0, base.NODES, {})
        self.assertIn('\nSPECREDS_TEMPEST_DESTRUCTIVE=True\n', text)
        self.assertIn('SPECREDS_TEMPEST_KILL_COMMAND='
                      '"$DEST/specreds/devstack/tools/host kill {host}"', text)
        self.assertTrue(os.access(roots.PROJECT / 'devstack/tools/host', os.X_OK))


def _install(root: pathlib.Path, argv: Sequence[str], _: pathlib.Path) -> int:
    """Do what apt-get and dpkg-divert do to curl."""
    curl, diverted = root / 'usr/bin/curl', root / 'usr/bin/curl.distrib'
    if 'install' in argv:
        curl.write_text('of the package')
    elif argv[0] == 'dpkg-divert' and not diverted.exists():
        curl.rename(diverted)
    return 0


class ContentsTest(base.DevstackTestCase):

    def test_files_and_stand_ins(self) -> None:
        self.useFixture(fixtures.MonkeyPatch('cloud.matrix.jail.run', _install))
        root = self.files.root.path
        (root / 'usr/bin').mkdir(parents=True)
        (root / 'usr/sbin').mkdir()
        for _ in range(2):
            contents.fill(self.files, base.NODES, commands.silent)
        self.assertEqual('devstack\n', (root / 'etc/hostname').read_text())
        self.assertTrue((root / 'etc/hosts').read_text().endswith(
            '198.18.7.2 devstack\n198.18.7.3 devstack2\n198.18.7.4 devstack3\n'))
        # The first directory of PATH is /bin once stack.sh has installed OVN.
        self.assertEqual('/opt/stand-ins/curl', os.readlink(root / 'usr/bin/curl'))
        self.assertEqual('of the package', (root / 'usr/bin/curl.distrib').read_text())
        self.assertIn('exec /usr/bin/curl.distrib ', (root / 'opt/stand-ins/curl').read_text())
        self.assertTrue(os.access(root / 'opt/stand-ins/cephadm', os.X_OK))

    def test_logins_start_no_systemd_of_the_user(self) -> None:
        self.useFixture(fixtures.MonkeyPatch('cloud.matrix.jail.run', _install))
        root = self.files.root.path
        for name in ('bin', 'sbin'):
            (root / 'usr' / name).mkdir(parents=True)
        contents.fill(self.files, base.NODES, commands.silent)
        # To systemd, an empty file is a unit that is masked.
        self.assertEqual('', (root / 'etc/systemd/system/user@.service').read_text())

    def test_services_have_seconds_to_stop(self) -> None:
        self.useFixture(fixtures.MonkeyPatch('cloud.matrix.jail.run', _install))
        systemd = self.files.root.path / 'etc/systemd'
        for name in ('bin', 'sbin'):
            (self.files.root.path / 'usr' / name).mkdir(parents=True)
        contents.fill(self.files, base.NODES, commands.silent)
        for name in ('system/devstack@.service.d/stop.conf', 'system.conf.d/stop.conf'):
            [seconds] = re.findall(r'TimeoutStopSec=(\d+)$', (systemd / name).read_text(),
                                   re.MULTILINE)
            self.assertLess(int(seconds), 10)

    def test_failed_installation_names_the_log(self) -> None:
        self.useFixture(fixtures.MonkeyPatch('cloud.matrix.jail.run', lambda *_: 1))
        for _ in range(2):
            error = self.assertRaises(commands.CloudError, contents.fill, self.files, base.NODES,
                                      commands.silent)
            self.assertIn('packages.log', str(error))

    def test_registries_are_reached_as_from_here(self) -> None:
        variables = {'PIP_INDEX_URL': 'https://i.example/', 'TERM': 'x', 'SECRET': 'y'}
        self.assertEqual({'PIP_INDEX_URL': 'https://i.example/'}, jail.registries(variables))
