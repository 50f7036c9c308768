# SPDX-License-Identifier: Apache-2.0
"""Where ./run devstack keeps its files."""

import dataclasses

from cloud.devstack import layout
from cloud.matrix import platforms
from cloud.matrix import root as roots
from cloud.tests.devstack import base


class LayoutTest(base.DevstackTestCase):

    def test_addresses(self) -> None:
        self.assertEqual(layout.Addresses('198.18.7.1', base.NODES, 24),
                         layout.addresses(base.SUBNET))

    def test_subnet_without_room(self) -> None:
        for subnet in ('198.18.7.0/30', '198.18.7.1/24', 'x'):
            self.assertRaises(ValueError, layout.addresses, subnet)

    def test_fresh_root_is_shared_with_the_matrix(self) -> None:
        matrix = roots.Root(self.data, platforms.PLATFORMS['debian-12'])
        self.assertEqual(matrix.tarball, self.files.root.tarball)
        self.assertNotEqual(matrix.path, self.files.root.path)

    def test_other_nodes_are_on_the_platform_of_the_first(self) -> None:
        files = dataclasses.replace(self.files, choices=layout.Choices('debian-13'))
        for node in (files, *files.others):
            self.assertEqual('debian-13', node.root.platform.name)

    def test_choices_are_remembered(self) -> None:
        self.assertIsNone(layout.Choices.load(self.files.data))
        choices = layout.Choices('debian-13', 'ovn')
        choices.save(self.files.data)
        self.assertEqual(choices, layout.Choices.load(self.files.data))

    def test_nodes_share_nothing_else(self) -> None:
        nodes = (self.files, *self.files.others)
        self.assertEqual(layout.NODES, tuple(node.name for node in nodes))
        self.assertEqual({self.files.root.tarball}, {node.root.tarball for node in nodes})
        for name in ('name', 'stacked', 'begun', 'logs', 'stack_log'):
            self.assertEqual(len(nodes), len({getattr(node, name) for node in nodes}), name)
