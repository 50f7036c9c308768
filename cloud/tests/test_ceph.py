# SPDX-License-Identifier: Apache-2.0
"""The one-machine Ceph: what it refuses before it starts, and its configuration."""

import pathlib
from unittest import mock

import ddt
import fixtures
import testtools

from cloud import caps
from cloud import ceph
from cloud import ceph_conf
from cloud import commands
from cloud import layout


@ddt.ddt
class RefusalTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def assert_refused(self, words: str, **options: int) -> None:
        error = self.assertRaises(commands.CloudError, ceph.Ceph, self.data, **options)
        self.assertIn(words, str(error))

    @ddt.data(({'osds': 0}, '0 OSDs'), ({'osds': 6}, '6 OSDs'), ({'port': 80}, 'port 80'),
              ({'port': 65500}, 'port 65500'), ({'monitors': 0}, '0 monitors'),
              ({'monitors': 6}, '6 monitors'))
    @ddt.unpack
    def test_setting_out_of_range_is_refused(self, options: dict[str, int], words: str) -> None:
        self.assert_refused(words, **options)

    def test_path_too_long_for_sockets_is_refused(self) -> None:
        error = self.assertRaises(commands.CloudError, ceph.Ceph, self.data / ('x' * 80))
        self.assertIn('shorter data directory', str(error))

    def test_settings_of_a_cluster_cannot_change(self) -> None:
        layout.Layout(self.data).save(layout.Settings(port=20000, osds=1))
        self.assertEqual(20000, ceph.Ceph(self.data, osds=1).settings.port)
        self.assert_refused('port 20000', port=20100)

    def test_unreadable_settings_are_an_error(self) -> None:
        layout.Layout(self.data).settings.write_text('{')
        self.assert_refused('cannot be read')

    @ddt.data('up', 'wipe')
    def test_directory_without_a_cluster_is_left_alone(self, action: str) -> None:
        kept = self.data / 'thesis.tex'
        kept.touch()
        error = self.assertRaises(commands.CloudError, getattr(ceph.Ceph(self.data), action))
        self.assertIn('left alone', str(error))
        self.assertTrue(kept.exists())

    def test_down_and_wipe_of_nothing_succeed(self) -> None:
        cluster = ceph.Ceph(self.data / 'none')
        cluster.down()
        cluster.wipe()
        self.assertEqual('DOWN', cluster.status().health)


@ddt.ddt
class ConfTest(testtools.TestCase):

    @ddt.data((1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2))
    @ddt.unpack
    def test_replicas_follow_the_number_of_osds(self, osds: int, size: int, min_size: int) -> None:
        text = ceph_conf.daemon(layout.Layout(pathlib.Path('/d')), layout.Settings(osds=osds))
        self.assertIn(f'osd pool default size = {size}\n', text)
        self.assertIn(f'osd pool default min size = {min_size}\n', text)

    def test_client_has_its_own_keyring_only(self) -> None:
        text = ceph_conf.client(layout.Layout(pathlib.Path('/d')),
                                layout.Settings(port=3300, ipv6=True), 'client.cinder')
        self.assertIn('keyring = /d/client.cinder.keyring\n', text)
        self.assertNotIn('admin.keyring', text)
        self.assertIn('mon host = [v2:[::1]:3300,v1:[::1]:3301]\n', text)
        self.assertIn('ms bind ipv6 = true\n', text)

    @ddt.data('lib/x86_64-linux-gnu', 'lib64', 'lib')
    def test_object_classes_are_found_by_an_absolute_path(self, directory: str) -> None:
        prefix = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        directory_of_classes = prefix / directory / 'rados-classes'
        directory_of_classes.mkdir(parents=True)
        self.assertEqual('', ceph_conf.classes(prefix))
        (directory_of_classes / 'libcls_rbd.so').touch()
        self.assertEqual(f'osd class dir = {directory_of_classes}', ceph_conf.classes(prefix))

    def test_osds_have_the_directory_of_their_classes(self) -> None:
        with mock.patch.object(ceph_conf, 'classes', return_value='osd class dir = /c'):
            text = ceph_conf.daemon(layout.Layout(pathlib.Path('/d')), layout.Settings())
        self.assertIn('\nosd class dir = /c\n', text.partition('[osd]')[2])

    def test_caps_name_every_pool(self) -> None:
        self.assertEqual('profile rbd pool=a, profile rbd pool=b', caps.cinder({'b', 'a'})['osd'])


class AddressTest(testtools.TestCase):

    def test_daemons_and_clients_have_the_address(self) -> None:
        data = self.useFixture(fixtures.TempDir()).path
        cluster = ceph.Ceph(data, address='198.18.5.129')
        daemon = ceph_conf.daemon(cluster.files, cluster.settings)
        self.assertIn('public addr = 198.18.5.129\n', daemon)
        self.assertIn('[v2:198.18.5.129:', ceph_conf.client(cluster.files, cluster.settings, 'c'))

    def test_clients_know_every_monitor(self) -> None:
        settings = layout.Settings(port=20000, monitors=3)
        conf = ceph_conf.client(ceph.Ceph('/none').files, settings, 'c')
        for port in (20000, 20002, 20004):
            self.assertIn(f'[v2:127.0.0.1:{port},v1:127.0.0.1:{port + 1}]', conf)
        self.assertEqual(['mon.a', 'mon.b', 'mon.c', 'mgr.x'], settings.daemons[:4])

    def test_default_is_the_loopback_address(self) -> None:
        cluster = ceph.Ceph(self.useFixture(fixtures.TempDir()).path)
        self.assertEqual('127.0.0.1', cluster.settings.address)

    def test_address_and_ipv6_exclude_each_other(self) -> None:
        self.assertRaisesRegex(commands.CloudError, 'choose one', ceph.Ceph, 'x',
                               address='198.18.5.129', ipv6=True)


class BlocklistTest(testtools.TestCase):

    def test_status_around_the_entries_is_passed_over(self) -> None:
        cluster = ceph.Ceph(self.useFixture(fixtures.TempDir()).path)
        entries = '[{"addr":"192.0.2.1:0/7","until":"x"},{"addr":"192.0.2.2:0/8","until":"x"}]'
        for answer in (f'listed 2 entries\n{entries}\n', f'\n{entries}listed 2 entries\n'):
            with mock.patch('cloud.commands.run', return_value=answer):
                self.assertEqual({'192.0.2.1:0/7', '192.0.2.2:0/8'}, cluster.blocklist())

    def test_empty_blocklist_has_no_addresses(self) -> None:
        cluster = ceph.Ceph(self.useFixture(fixtures.TempDir()).path)
        with mock.patch('cloud.commands.run', return_value='listed 0 entries\n[]\n'):
            self.assertEqual(set(), cluster.blocklist())
