# SPDX-License-Identifier: Apache-2.0
"""Disks that are made durable under a running guest."""

import libvirt
import testtools

from specreds_nova.host.disks import durable
from specreds_nova.host.disks import nodes as disk_nodes
from specreds_nova.host.disks import qmp
from specreds_nova.tests.unit.host.merge import fakes

NODES = ['libvirt-3-format', 'libvirt-3-storage', 'libvirt-4-format', 'libvirt-4-storage',
         'libvirt-1-format', 'libvirt-1-storage', 'libvirt-2-format', 'libvirt-2-storage']


class DurableTestCase(testtools.TestCase):
    """A domain with two speculative disks."""

    def setUp(self) -> None:
        super().setUp()
        self.domain = fakes.Domain()
        self.patch(qmp, 'run', self.domain.qmp)

    @property
    def commands(self) -> list[str]:
        """Return the changes that QEMU was told to make."""
        return [command for command, _arguments in self.domain.requests
                if command in ('blockdev-reopen', 'change-backing-file')]


class HardenTest(DurableTestCase):

    def test_flushes_twice_with_a_write_in_between(self) -> None:
        self.assertEqual(NODES, durable.harden(self.domain))
        # The first reopen flushes nodes that still ignore flushes; only the second one, after a
        # write to each node, flushes effectively.
        self.assertEqual(['blockdev-reopen', 'change-backing-file', 'change-backing-file',
                          'blockdev-reopen'], self.commands)
        self.assertEqual([], durable.ignoring_flushes(self.domain))

    def test_header_of_a_read_only_disk_is_not_written(self) -> None:
        self.domain.disks[1].read_only = True
        for device in ('disk', 'cdrom'):
            self.domain.disks[1].device = device
            self.domain.durable.clear()
            del self.domain.requests[:]
            self.assertEqual(NODES, durable.harden(self.domain))
            self.assertEqual(['blockdev-reopen', 'change-backing-file', 'blockdev-reopen'],
                             self.commands)
            options = {node['node-name']: node for _command, arguments in self.domain.requests
                       for node in arguments.get('options', ())}
            self.assertEqual([False, True], [options[f'libvirt-{index}-format']['read-only']
                                             for index in (3, 1)])

    def test_cdrom_without_an_overlay_is_not_touched(self) -> None:
        for disk in self.domain.disks:
            disk.overlay, disk.device, disk.read_only = None, 'cdrom', True
        self.assertEqual([], durable.harden(self.domain))
        self.assertEqual([], self.commands)

    def test_harden_may_be_repeated(self) -> None:
        durable.harden(self.domain)
        del self.domain.requests[:]
        self.assertEqual([], durable.harden(self.domain))
        self.assertEqual([], self.commands)

    def test_partly_hardened_disk_is_completed(self) -> None:
        self.domain.durable = set(NODES[:3])
        self.assertEqual(NODES[3:], durable.harden(self.domain))

    def test_options_are_libvirts_own(self) -> None:
        durable.harden(self.domain)
        _command, arguments = next(request for request in self.domain.requests
                                   if request[0] == 'blockdev-reopen')
        # The arguments that libvirt 9 gives QEMU, except for the flushing.
        cache = {'direct': False, 'no-flush': False}
        storage = {'driver': 'rbd', 'pool': 'volumes', 'user': 'cinder',
                   'server': [{'host': '192.0.2.1', 'port': '6789'}],
                   'auth-client-required': ['cephx', 'none'], 'cache': cache,
                   'auto-read-only': True, 'discard': 'unmap'}
        self.assertEqual([
            {**storage, 'image': 'root', 'node-name': 'libvirt-4-storage',
             'key-secret': 'libvirt-4-storage-auth-secret0'},
            {'node-name': 'libvirt-4-format', 'read-only': True, 'discard': 'unmap',
             'cache': cache, 'driver': 'raw', 'file': 'libvirt-4-storage'},
            {**storage, 'image': 'root.super', 'node-name': 'libvirt-3-storage',
             'key-secret': 'libvirt-3-storage-auth-secret0'},
            {'node-name': 'libvirt-3-format', 'read-only': False, 'discard': 'unmap',
             'cache': cache, 'driver': 'qcow2', 'file': 'libvirt-3-storage',
             'backing': 'libvirt-4-format'},
        ], arguments['options'][:4])

    def test_options_of_an_encrypted_disk_name_its_secrets(self) -> None:
        disk = self.domain.disks[0]
        there = {node['node-name']: node for node in disk.nodes()}
        names = {f'{name}-encryption-secret0' for name in there}
        there['libvirt-4-format'] |= {'drv': 'luks'}
        [parsed] = [parsed for parsed in disk_nodes.disks(self.domain)
                    if parsed.layers[0].index == 3]
        options = {node['node-name']: node for node in disk_nodes.options(
            parsed, there, names, no_flush=False)}
        self.assertEqual('libvirt-4-format-encryption-secret0',
                         options['libvirt-4-format']['key-secret'])
        self.assertEqual({'format': 'luks', 'key-secret': 'libvirt-3-format-encryption-secret0'},
                         options['libvirt-3-format']['encrypt'])

    def test_merged_disk_is_hardened(self) -> None:
        for disk in self.domain.disks:
            disk.overlay = None
        durable.harden(self.domain)
        self.assertEqual(['blockdev-reopen', 'blockdev-reopen'], self.commands)

    def test_refused_change_is_not_durable(self) -> None:
        self.domain.refused['blockdev-reopen'] = 'Cannot change the option'
        exc = self.assertRaises(durable.NotDurable, durable.harden, self.domain)
        self.assertIn('Cannot change the option', str(exc))
        self.assertIn('instance-1', str(exc))

    def test_stopped_domain_is_not_durable(self) -> None:
        self.domain.active = False
        exc = self.assertRaises(durable.NotDurable, durable.harden, self.domain)
        self.assertIsInstance(exc.__cause__, libvirt.libvirtError)

    def test_change_is_verified(self) -> None:
        # QEMU acknowledges the change and does not make it.
        self.patch(qmp, 'run', lambda domain, command, **arguments: (
            {} if command == 'blockdev-reopen'
            else self.domain.qmp(domain, command, **arguments)))
        exc = self.assertRaises(durable.NotDurable, durable.harden, self.domain)
        self.assertIn('libvirt-1-storage', str(exc))

    def test_unknown_node_is_not_durable(self) -> None:
        # A release of libvirt may name the nodes differently, which must not look durable.
        self.domain.disks[0].nodes = list  # type: ignore[method-assign]
        exc = self.assertRaises(durable.NotDurable, durable.harden, self.domain)
        self.assertIn('libvirt-3-storage', str(exc))

    def test_stored_definition_becomes_durable(self) -> None:
        self.domain.stored = _definition('unsafe')
        durable.harden(self.domain)
        self.assertEqual(_definition('none'), self.domain.stored)


class FlushTest(DurableTestCase):

    def test_only_volumes_are_flushed(self) -> None:
        durable.harden(self.domain)
        del self.domain.requests[:]
        durable.flush(self.domain, disk_nodes.chained(self.domain))
        [(_command, arguments)] = [request for request in self.domain.requests
                                   if request[0] == 'blockdev-reopen']
        self.assertEqual(['libvirt-4-storage', 'libvirt-4-format', 'libvirt-2-storage',
                          'libvirt-2-format'],
                         [node['node-name'] for node in arguments['options']])

    def test_no_disk_needs_no_flush(self) -> None:
        durable.flush(self.domain, [])
        self.assertEqual([], self.commands)

    def test_failed_flush_is_an_error(self) -> None:
        self.domain.refused['blockdev-reopen'] = 'Error flushing drive'
        self.assertRaises(durable.NotDurable, durable.flush, self.domain,
                          disk_nodes.chained(self.domain))


class StrictTest(testtools.TestCase):

    def test_only_disks_in_ceph_are_changed(self) -> None:
        local = ("<domain><devices><disk type='file'><driver name='qemu' cache='unsafe'/>"
                 "<source file='/x'/></disk></devices></domain>")
        self.assertFalse(durable.speculative(local))
        self.assertIn('unsafe', durable.with_flushes(local))

    def test_speculative_disk_is_recognized(self) -> None:
        self.assertTrue(durable.speculative(_definition('unsafe')))
        self.assertFalse(durable.speculative(durable.with_flushes(_definition('unsafe'))))


class NestedTest(testtools.TestCase):

    def test_options_of_several_monitors_are_nested(self) -> None:
        nested = disk_nodes._nested({
            'driver': 'rbd', 'server.0.host': 'a', 'server.1.host': 'b', 'server.0.port': '1',
            'server.1.port': '2', 'namespace': 'n'})
        self.assertEqual({'driver': 'rbd', 'namespace': 'n', 'server': [
            {'host': 'a', 'port': '1'}, {'host': 'b', 'port': '2'}]}, nested)


def _definition(cache: str) -> str:
    return (f'<domain><devices><disk type="network" device="disk"><driver name="qemu" '
            f'type="qcow2" cache="{cache}"/><source protocol="rbd" name="volumes/a"/></disk>'
            f'</devices></domain>')
