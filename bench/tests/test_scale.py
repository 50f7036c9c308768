# SPDX-License-Identifier: Apache-2.0
"""The simulated services and hosts of the benchmark of a rack that fails."""

import json
from typing import Any
from unittest import mock

import testtools

from bench.scale import latency
from bench.scale import mix
from bench.scale import process
from bench.scale.simulated import beats
from bench.scale.simulated import hosts
from bench.scale.simulated import inventory
from bench.scale.simulated import openstack
from bench.scale.simulated import web
from bench.scale.simulated import workers
from specreds_nova import exception as backup_errors
from specreds_nova.beats import fast_decode
from specreds_nova.beats import frames
from specreds_nova.engine.clients import compute


class OpenStackTest(testtools.TestCase):
    """Requests for the servers of two hosts that fail."""

    def setUp(self) -> None:
        super().setUp()
        self.inventory = inventory.Inventory(5, 2, 3)
        self.services = openstack.OpenStack(self.inventory, 'http://here')

    def ask(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """Return what a request is answered with."""
        reply = self.services.answer(web.Request(method, path, query, body))
        encoded = reply.encoded().partition(b'\r\n\r\n')[2]
        return json.loads(encoded) if encoded else None

    def test_each_failed_host_has_servers(self) -> None:
        for host in self.inventory.dead_hosts:
            servers = self.ask('GET', '/compute/servers/detail', host=host)['servers']
            self.assertEqual([host] * 3, [server['OS-EXT-SRV-ATTR:host'] for server in servers])

    def test_request_waits_for_a_worker_of_its_service(self) -> None:
        def replies(path: str, count: int) -> list[float]:
            return [self.services.answer(web.Request('GET', path, {}, None)).seconds
                    for _ in range(count)]
        at_once = replies('/placement/resource_providers', workers.COUNT)
        [waited] = replies('/placement/resource_providers', 1)
        [other] = replies('/compute/os-aggregates', 1)
        self.assertLessEqual(max(at_once), latency.NOVA[1])
        self.assertGreater(waited, min(at_once))
        self.assertLessEqual(other, latency.LIST[1])
        busy = self.ask('GET', openstack.COUNT)['busy']
        self.assertGreater(busy, sum(at_once) + other)
        self.assertEqual(busy, self.ask('GET', openstack.COUNT)['busy'])

    def test_only_hosts_that_live_are_candidates(self) -> None:
        answer = self.ask('GET', '/placement/allocation_candidates', limit='3')
        living = {inventory.made(host) for host in self.inventory.living_hosts}
        self.assertEqual(3, len(answer['allocation_requests']))
        self.assertLess(answer['provider_summaries'].keys(), living)

    def test_evacuated_server_is_elsewhere_in_time(self) -> None:
        server = next(iter(self.inventory.failed))
        self.ask('POST', f'/compute/servers/{server}/action', {'evacuate': {'host': 'host1'}})
        shown = self.ask('GET', f'/compute/servers/{server}')['server']
        self.assertEqual('rebuilding', shown['OS-EXT-STS:task_state'])
        nova = mock.Mock(get=lambda path, **query: self.ask('GET', f'/compute{path}', **query))
        evacuation = compute.Compute.evacuation(mock.Mock(_nova=nova), server)
        assert evacuation is not None
        self.assertEqual('host1', evacuation.host)
        self.services._moves[server] = 0.0, 'host1'
        shown = self.ask('GET', f'/compute/servers/{server}')['server']
        self.assertEqual('host1', shown['OS-EXT-SRV-ATTR:host'])
        # Else the engine would recover it once more.
        left = self.ask('GET', '/compute/servers/detail', host='dead0')['servers']
        self.assertEqual({*self.inventory.failed} - {server}, {shown['id'] for shown in left} | {
            other for other, shown in self.inventory.failed.items()
            if shown['OS-EXT-SRV-ATTR:host'] != 'dead0'})

    def test_superposition_is_merged_after_the_decision(self) -> None:
        made = self.ask('POST', '/volume/os-superpositions', {'superposition': {
            'server_id': 's', 'volume_ids': ['v'], 'reason': 'recovery r'}})['superposition']
        path = f'/volume/os-superpositions/{made["id"]}'
        self.assertEqual('superposed', self.ask('GET', path)['superposition']['state'])
        self.ask('POST', f'{path}/collapse', {})
        self.assertEqual('promoted', self.ask('GET', path)['superposition']['state'])
        self.services._decided[made['id']] = 0.0
        self.assertIn('itemNotFound', self.ask('GET', path))

    def test_pages_of_hypervisors_end(self) -> None:
        page = self.ask('GET', '/compute/os-hypervisors/detail')
        self.assertEqual(7, len(page['hypervisors']))
        self.assertNotIn('hypervisors_links', page)

    def test_groups_have_a_member_on_each_host(self) -> None:
        [group] = self.ask('GET', '/compute/os-server-groups')['server_groups']
        self.assertEqual({'dead0', 'dead1'}, {
            self.inventory.failed[member]['OS-EXT-SRV-ATTR:host'] for member in group['members']})

    def test_one_server_in_five_is_long(self) -> None:
        mixed = inventory.Inventory.of(str(inventory.Inventory(5, 2, 10, 0.5, 90.0)))
        self.assertEqual([90.0, 0.5, 0.5, 0.5, 0.5] * 4, list(map(mixed.ready, mixed.failed)))
        self.assertEqual({5.0}, set(map(self.inventory.ready, self.inventory.failed)))

    def test_request_may_come_in_pieces(self) -> None:
        request = b'POST /a?b=c HTTP/1.1\r\nContent-Length: 7\r\n\r\n{"d":1}'
        self.assertEqual(7, web._length(request.partition(b'\r\n\r\n')[0]))
        self.assertEqual(web.Request('POST', '/a', {'b': 'c'}, {'d': 1}),
                         web._request(*request.split(b'\r\n\r\n')))


class MixTest(testtools.TestCase):
    """Short recoveries beside long ones."""

    def test_engine_knows_the_time_of_each_flavor(self) -> None:
        learned: dict[str, float] = {}
        mix.teach(mix.MIX.inventory, learned.__setitem__)
        self.assertEqual([0.5, 90.0], sorted(learned.values()))

    def test_engine_has_the_options_of_the_part(self) -> None:
        engine = mock.Mock()
        engine.hosts.say.return_value = {
            server: 10.0 if mix.MIX.inventory.is_long(server) else 12.0
            for server in mix.MIX.inventory.failed}
        with mock.patch.object(process, 'stage') as stage, \
                mock.patch.object(mix, '_WARM_UP', 0.0):
            stage.return_value.__enter__.return_value = engine
            waits = mix.waits_of(mix.MIX, 'own', 1)
        self.assertEqual(({'slots': '10'}, 'bench.scale.placed'), stage.call_args.args[3:])
        self.assertEqual([2.0] * 80, waits)

    def test_waits_are_compared(self) -> None:
        figures = mix.figures_of({'fifo': [0.0, 100.0, 200.0], 'own': [0.0, 5.0, 10.0]})
        self.assertEqual((100.0, 0.05), (figures['scale.mix.fifo.short_wait_s_p50'],
                                         figures['scale.short_wait_p99_own_over_fifo']))


class HostsTest(testtools.TestCase):
    """Backups that are calls, and beats that are bytes."""

    def test_backup_is_ready_some_time_after_its_start(self) -> None:
        backups = hosts.Backups(inventory.Inventory(5, 1, 2))
        call = {'backup_id': 'b', 'instance_uuid': 's'}
        self.assertIsInstance(backups.call('status', 'h', call)[2], backup_errors.BackupNotFound)
        seconds, status, _ = backups.call('start', 'h', call)
        self.assertEqual(('running', False), (status['phase'], status['ready']))
        self.assertGreater(seconds, 1.0)
        self.assertEqual('starting', backups.call('status', 'h', call)[1]['phase'])
        backups._runs['b'] = 's', 0.0, 0.0
        self.assertTrue(backups.call('status', 'h', call)[1]['ready'])
        backups.call('promote', 'h', call)
        self.assertEqual(['s'], list(backups.served))

    def test_beats_are_those_of_a_library(self) -> None:
        sender = beats.Sender.__new__(beats.Sender)
        sender._prefix, sender._channel, sender._interval = beats._method(3), 3, 0.2
        sender._ready, sender._bodies = {'busy': [(0.0, 'b')]}, {}
        for host in ('idle', 'busy'):
            for number in (0, 12):
                [body] = frames.Frames().bodies(
                    sender._encoded(host, number)[len(sender._prefix):])
                beat = fast_decode.read(body)
                self.assertIsNotNone(beat)
                assert beat is not None
                self.assertEqual((host, number), (beat.host, beat.number))
