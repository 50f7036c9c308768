# SPDX-License-Identifier: Apache-2.0
"""Compute hosts: what is theirs alone, and what an operator sees of them."""

import json
from unittest import mock

from cloud import commands
from cloud.hosts import host as one_host
from cloud.hosts import hosts
from cloud.hosts import layout as hosts_layout
from cloud.hosts import services
from cloud.openstack import layout
from cloud.tests.hosts import base


class LayoutTest(base.HostsTestCase):

    def test_each_host_has_addresses_of_its_own(self) -> None:
        seen = {self.settings.host, self.settings.storage_host}
        for number in range(1, layout.MAX_HOSTS + 1):
            addresses = hosts_layout.Layout(self.cloud, self.settings, number).addresses
            self.assertEqual({'control', 'storage'}, set(addresses))
            self.assertEqual(self.settings.control, addresses['control'].network)
            self.assertEqual(self.settings.storage, addresses['storage'].network)
            seen |= {str(address.ip) for address in addresses.values()}
        self.assertEqual(2 + 2 * layout.MAX_HOSTS, len(seen))

    def test_host_keeps_its_identity(self) -> None:
        again = hosts_layout.Layout(self.cloud, self.settings, 2)
        other = hosts_layout.Layout(self.cloud, self.settings, 3)
        self.assertEqual(self.files.uuid, again.uuid)
        self.assertEqual(self.files.ethernet, again.ethernet)
        self.assertEqual(6, len({*self.files.ethernet.values(), *other.ethernet.values()}))
        self.assertNotEqual(self.files.uuid, other.uuid)
        self.assertEqual(['cn2', 'cn3'], [self.files.name, other.name])


class HostTest(base.HostsTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.hosts = hosts.Hosts(self.cloud, self.settings, {}, self.backends)

    def test_unknown_host_is_an_error(self) -> None:
        self.assertRaisesRegex(commands.CloudError, 'there are: cn1, cn2, cn3', self.hosts.host,
                               'cn4')

    def test_host_that_is_off_refuses_operations(self) -> None:
        host = self.hosts.host('cn1')
        self.assertEqual('off', host.state)
        for action in (host.hang, host.resume, host.cut, host.domains):
            self.assertRaisesRegex(commands.CloudError, 'cn1 is off', action)

    def test_reused_process_id_is_not_the_host(self) -> None:
        host = self.hosts.host('cn1')
        host.files.root.mkdir(parents=True)
        host.files.record.write_text(json.dumps({'pid': 1, 'started': 'long ago'}))
        self.assertEqual(0, host.pid)

    def booted(self, *, changed: bool) -> mock.Mock:
        """Boot a host that runs, with all of its services, and return its supervisor."""
        writer, supervisor = mock.Mock(), mock.Mock()
        writer.return_value.write.return_value = changed
        host = one_host.Host(self.files, mock.Mock(), writer)
        with (mock.patch.object(one_host.Host, 'state', one_host.RUNNING),
              mock.patch.object(one_host.Host, '_supervisor', supervisor)):
            host.boot()
        return supervisor

    def test_services_with_another_configuration_are_restarted(self) -> None:
        self.booted(changed=True).stop_daemons.assert_called_once_with(
            (services.COMPUTE, services.SENTINEL))

    def test_services_with_the_same_configuration_go_on(self) -> None:
        self.booted(changed=False).stop_daemons.assert_not_called()

    def test_each_program_of_a_host_has_a_log(self) -> None:
        log = self.hosts.logs['cn3/nova-compute']
        self.assertEqual(self.hosts.host('cn3').files.log, log.parent)
        self.assertEqual(3 * len(services.programs(self.files)), len(self.hosts.logs))

    def test_hosts_that_are_off_are_not_good(self) -> None:
        self.assertEqual([('cn1', False, 'off'), ('cn2', False, 'off'), ('cn3', False, 'off')],
                         [(check.name, check.good, check.words)
                          for check in self.hosts.status()])
        self.assertEqual([], self.hosts.running())
