# SPDX-License-Identifier: Apache-2.0
"""The fence of disks that Nova keeps in RBD."""

from collections.abc import Mapping, Sequence
from typing import Any

from specreds_cinder import exception
from specreds_cinder.tests.unit.service import base

_SERVER = '9c1e6c6a-5a0f-4f0b-9a2e-0d5b1c2f3e04'
_ROOT, _SWAP = f'{_SERVER}_disk', f'{_SERVER}_disk.swap'
_OLD, _NEW = '192.0.2.1:0/11', '192.0.2.2:0/22'


class DiskFenceTest(base.ServiceTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.conf.config(group='specreds', server_disks_backend=base.HOST)
        driver = self.back.drivers[base.HOST]
        driver.disk_image.side_effect = lambda disk: f'vms/{disk.name}'
        driver.worker.call = self.answer
        self.images = [f'vms/{_ROOT}', f'vms/{_SWAP}']
        self.clients = {image: {_OLD} for image in self.images}
        self.ledger: dict[str, set[str]] = {}
        self.fenced: list[Mapping[str, Any]] = []

    def answer(self, _ctxt: Any, method: str, images: Sequence[str] = (), prefix: str = '',
               targets: Sequence[Mapping[str, Any]] = (), fence_id: str = '') -> Any:
        """Answer as the worker does."""
        if method == 'images':
            return [image for image in self.images if image.startswith(prefix)]
        if method == 'note':
            for image in images:
                self.ledger.setdefault(image, set()).update(self.clients[image])
            return None
        if method == 'noted':
            return [sorted(self.ledger.get(image, ())) for image in images]
        self.assertEqual(('shut_out', 'f1'), (method, fence_id))
        self.fenced += targets
        return [1 for _ in targets]

    def fence(self, *disks: str) -> Any:
        """Fence disks of the server."""
        return self.service.fence_disks(self.context, disks, 'f1')

    def test_all_disks_of_the_server_are_fenced(self) -> None:
        self.service.fence_disks_observe(self.context, [_ROOT], 'f1')
        self.assertEqual([{'disk': _ROOT, 'clients': 1}, {'disk': _SWAP, 'clients': 1}],
                         self.fence(_ROOT))
        self.assertEqual(self.images, [target['image'] for target in self.fenced])

    def test_only_hosts_that_were_noted_are_fenced(self) -> None:
        self.service.fence_disks_observe(self.context, [_ROOT], 'f1')
        # The server was started elsewhere meanwhile, for example by another engine.
        self.clients = {image: {_NEW} for image in self.images}
        self.fence(_ROOT)
        self.assertEqual([['192.0.2.1']] * 2, [target['addresses'] for target in self.fenced])

    def test_clients_that_were_not_noted_are_not_fenced(self) -> None:
        # No request to note them arrived, and the server was started elsewhere meanwhile.
        self.clients = {image: {_NEW} for image in self.images}
        for _ in range(2):
            error = self.assertRaises(exception.SuperpositionConflict, self.fence, _ROOT)
            self.assertIn('no client', error.msg)
        self.assertEqual(([], {}), (self.fenced, self.ledger))

    def test_disks_that_are_open_on_several_hosts_are_not_fenced(self) -> None:
        self.clients[f'vms/{_SWAP}'] = {_NEW}
        self.service.fence_disks_observe(self.context, [_ROOT], 'f1')
        error = self.assertRaises(exception.SuperpositionConflict, self.fence, _ROOT)
        self.assertIn('192.0.2.1, 192.0.2.2', error.msg)
        self.assertEqual([], self.fenced)

    def test_disks_without_a_known_client_are_not_fenced(self) -> None:
        self.clients = {image: set() for image in self.images}
        self.service.fence_disks_observe(self.context, [_ROOT], 'f1')
        error = self.assertRaises(exception.SuperpositionConflict, self.fence, _ROOT)
        self.assertIn('no client', error.msg)
        self.assertEqual([], self.fenced)

    def test_missing_disk_is_named_and_nothing_is_fenced(self) -> None:
        self.images.remove(f'vms/{_ROOT}')
        for fence in (lambda: self.fence(_ROOT), lambda: self.service.fence_disks_observe(
                self.context, [_ROOT], 'f1')):
            error = self.assertRaises(exception.SuperpositionConflict, fence)
            self.assertIn(f'vms/{_ROOT}', error.msg)
        self.assertEqual([], self.fenced)
