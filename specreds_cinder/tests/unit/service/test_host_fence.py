# SPDX-License-Identifier: Apache-2.0
"""The clients that a volume service takes for those of a failed host."""

from collections.abc import Iterator
import contextlib
import types
from typing import Any
from unittest import mock

from cinder import objects
import fixtures

from specreds_cinder import exception
from specreds_cinder.service import hints
from specreds_cinder.tests.unit.service import base


class HostFenceTest(base.ServiceTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.attachments: list[types.SimpleNamespace] = []
        self.useFixture(fixtures.MockPatchObject(
            objects.VolumeAttachmentList, 'get_all_by_volume_id',
            lambda _ctxt, volume_id: [attachment for attachment in self.attachments
                                      if attachment.volume_id == volume_id]))
        self.useFixture(fixtures.MockPatchObject(
            objects.VolumeAttachmentList, 'get_all_by_host',
            lambda _ctxt, host: [attachment for attachment in self.attachments
                                 if attachment.attached_host == host]))
        self.clients: dict[str, list[str]] = {}
        self.targets: list[dict[str, Any]] = []
        self.worker._clients = lambda images, fence_id: [  # type: ignore[attr-defined]
            self.clients.get(image, []) for image in images if fence_id == 'f1']
        self.worker._shut_out = self.shut_out  # type: ignore[attr-defined]
        self.worker._note = mock.Mock()  # type: ignore[attr-defined]

    def shut_out(self, targets: list[dict[str, Any]], fence_id: str) -> list[int]:
        """Record the targets in place of the worker."""
        del fence_id
        self.assertTrue(self.back.locked)
        self.targets = targets
        return [1 for _target in targets]

    def attached(self, *hosts: str | None, ip: str | None = None) -> str:
        """Add a volume that is attached on hosts, and return its id."""
        volume_id = self.back.add_volume(base.HOST)['id']
        self.attachments += [types.SimpleNamespace(
            volume_id=volume_id, attached_host=host,
            connector={'host': host, **({'ip': ip} if ip else {})} if host else None)
            for host in hosts]
        return volume_id

    def fence(self, *volume_ids: str) -> list[dict[str, Any]]:
        """Fence host a."""
        fenced: list[dict[str, Any]] = self.service.fence_host(
            self.context, list(volume_ids), 'a', 'f1')
        return fenced

    def test_only_a_volume_of_a_dead_host_alone_is_fenced_first(self) -> None:
        for hosts, dead_host, dead in ((('a',), 'a', True), (('a', 'b'), 'a', False),
                                       (('b',), 'a', False), ((), 'a', False),
                                       (('a',), None, False)):
            volume_id = self.attached(*hosts)
            self.create({'id': volume_id, 'host': base.HOST}, dead_host=dead_host,
                        superposition_id=volume_id)
            [*_, arguments] = [arguments for method, arguments in self.worker.calls
                               if method == 'super']
            self.assertEqual((dead, 'a' if dead else None), (
                arguments['dead'], arguments['labels'].get('dead_host')))

    def test_every_client_is_the_host_s_if_no_other_host_is_attached(self) -> None:
        # A reservation is connected to no host.
        volume_id = self.attached('a', None)
        self.assertEqual([{'volume_id': volume_id, 'clients': 1}], self.fence(volume_id))
        self.assertEqual([{'image': f'volume-{volume_id}', 'addresses': None, 'clients': 0}],
                         self.targets)

    def test_shared_volume_is_fenced_by_the_addresses_of_the_host(self) -> None:
        shared = self.attached('a', 'b', 'a', ip='192.0.2.1')
        own = self.attached('a')
        self.clients = {f'volume-{own}': ['198.51.100.7:0/77'],
                        f'volume-{shared}': ['203.0.113.1:0/1']}
        self.attachments[1].connector['ip'] = '192.0.2.2'
        self.fence(shared)
        self.assertEqual([{'image': f'volume-{shared}', 'clients': 2,
                           'addresses': ['192.0.2.1', '198.51.100.7']}], self.targets)

    def test_status_that_the_host_left_is_restored_behind_the_fence(self) -> None:
        volume_id = self.attached('a')
        volume = self.back.volumes[volume_id]
        volume.status = 'detaching'
        volume.conditional_update.side_effect = lambda *_: self.assertTrue(self.targets)
        self.fence(volume_id)
        volume.conditional_update.assert_called_once()

    def test_volume_of_another_host_is_refused(self) -> None:
        volume_ids = self.attached('a'), self.attached('b')
        error = self.assertRaises(exception.SuperpositionConflict, self.fence, *volume_ids)
        self.assertIn(f'volume {volume_ids[1]} is not attached on host a', error.msg)
        self.assertEqual([], self.targets)

    def test_volume_that_moves_to_another_host_meanwhile_is_not_fenced_there(self) -> None:
        volume_id = self.attached('a')
        lock = hints.lock

        @contextlib.contextmanager
        def moved(*volume_ids: str) -> Iterator[None]:
            # The last holder of the lock has changed the volume.
            self.attachments[0].attached_host = 'b'
            with lock(*volume_ids):
                yield
        self.useFixture(fixtures.MockPatchObject(hints, 'lock', moved))
        self.assertRaises(exception.SuperpositionConflict, self.fence, volume_id)
        self.assertEqual([], self.targets)

    def fenceable(self, volume_id: str) -> bool:
        """Return whether host a can be shut out of a volume, by the answer beforehand."""
        [answer] = self.service.eligibility(self.context, [volume_id], fenced_host='a')
        self.assertEqual([], self.targets)
        return bool(answer['fenceable'])

    def test_volume_of_another_host_is_reported_beforehand(self) -> None:
        self.assertEqual([True, False, False], [self.fenceable(self.attached(*hosts)) for hosts
                                                in (('a', None), ('b',), (None,))])

    def test_shared_volume_whose_clients_are_unknown_is_reported_beforehand(self) -> None:
        shared = self.attached('a', 'b', ip='192.0.2.1')
        self.attachments[1].connector['ip'] = '192.0.2.2'
        self.worker._clients = (  # type: ignore[attr-defined]
            lambda images, fence_id: [self.clients.get(image, []) for image in images])
        self.clients = {f'volume-{shared}': ['192.0.2.2:0/1']}
        self.assertFalse(self.fenceable(shared))
        self.clients = {f'volume-{shared}': ['192.0.2.1:0/1', '192.0.2.2:0/1']}
        self.assertTrue(self.fenceable(shared))

    def test_observation_notes_the_clients(self) -> None:
        volume_id = self.attached('a')
        self.service.fence_observe(self.context, [volume_id], 'f1')
        self.worker._note.assert_called_once_with(  # type: ignore[attr-defined]
            images=[f'volume-{volume_id}'], fence_id='f1')
