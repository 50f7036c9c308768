# SPDX-License-Identifier: Apache-2.0
"""The block nodes of the child version."""

import dataclasses
from unittest import mock

import testtools

from specreds_cinder.superposition.overlay import nodes
from specreds_cinder.tests.unit.superposition.truth import test_record

CLUSTER = mock.Mock(conffile='/etc/ceph/ceph.conf', user='cinder')


class NodesTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.volume = dataclasses.replace(test_record.make_volume(), namespace='tenant')

    def test_chain_has_base_file_and_overlay(self) -> None:
        base, file, top = nodes.overlay_nodes(CLUSTER, self.volume, prefix='sp7')
        self.assertEqual(('vol', 'vol.super'), (base['image'], file['image']))
        self.assertEqual((top['file'], top['backing'], top['node-name']),
                         (file['node-name'], base['node-name'], 'sp7'))
        self.assertTrue(base['read-only'])
        for node in (base, file):
            self.assertEqual(('volumes', 'tenant', '/etc/ceph/ceph.conf', 'cinder', 'unmap'),
                             (node['pool'], node['namespace'], node['conf'], node['user'],
                              node['discard']))

    def test_flushes_are_not_forced_out_while_speculative(self) -> None:
        for speculative in (True, False):
            base, file, top = nodes.overlay_nodes(CLUSTER, self.volume, speculative=speculative)
            self.assertEqual((False, speculative, speculative),
                             (base['cache']['no-flush'], file['cache']['no-flush'],
                              top['cache']['no-flush']))

    def test_speculative_chain_differs_in_flushes_only(self) -> None:
        # QEMU refuses to reopen a node when anything but that has changed.
        for speculative, durable in zip(
                nodes.overlay_nodes(CLUSTER, self.volume),
                nodes.overlay_nodes(CLUSTER, self.volume, speculative=False), strict=True):
            speculative['cache']['no-flush'] = durable['cache']['no-flush']
            self.assertEqual(speculative, durable)

    def test_node_without_a_namespace_has_no_such_option(self) -> None:
        volume = dataclasses.replace(self.volume, namespace='')
        self.assertNotIn('namespace', nodes.base_node(CLUSTER, volume, 'b', read_only=True))

    def test_offline_chain_is_one_writable_durable_node(self) -> None:
        node = nodes.offline_chain(CLUSTER, self.volume)
        self.assertEqual(('qcow2', 'vol.super', 'vol'),
                         (node['driver'], node['file']['image'], node['backing']['image']))
        for part in (node, node['file'], node['backing']):
            self.assertNotIn('node-name', part)
            self.assertNotIn('read-only', part)
            self.assertFalse(part['cache']['no-flush'])
