# SPDX-License-Identifier: Apache-2.0
"""The life of a superposition with real writers of both versions, and each of its ends."""

import uuid

from specreds_cinder.tests.cloud import base

_CHILD = 'write -P 0xc1 0 64k'
_SEEN = 'read -P 0xc1 0 64k'
_EBLOCKLISTED = -108


class LifeTest(base.CloudTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.volume_ = self.make_volume()
        self.volume_id = self.volume_['id']

    def test_promoted_volume_is_merged(self) -> None:
        server = str(uuid.uuid4())
        attachment = self.attach(self.volume_id, server)
        primary = self.make_primary(self.volume_)
        made = self.superpose(self.volume_id, server_id=server, reason='host-1 is silent')
        self.assertEqual(('superposed', server, 'host-1 is silent', [self.volume_id]), (
            made['state'], made['server_id'], made['reason'],
            [each['id'] for each in made['volumes']]))
        # Until the decision, a new attachment gets the volume itself.
        self.assertEqual('rbd', self.connection(self.volume_)['driver_volume_type'])
        child = self.connections(made['id'])[self.volume_id]
        self.qemu_io(self.volume_, child, 'read -P 0x50 0 4k', _CHILD, 'flush')
        self.assertEqual(b'\x50' * 4096, primary.read(0))
        self.assertLess(0, self.superposition(made['id'])['overlay_bytes'])

        self.assertEqual('promoted', self.collapse(made['id'])['outcome'])

        self.assertEqual(_EBLOCKLISTED, primary.write(0, 0x99))
        info = self.connection(self.volume_)
        self.assertEqual('rbd_super', info['driver_volume_type'])
        self.qemu_io(self.volume_, info, _SEEN)
        # The connection of an old attachment follows.
        seen = self.request('GET', f'/attachments/{attachment["id"]}')['attachment']
        self.assertEqual('rbd_super', seen['connection_info']['driver_volume_type'])

        self.merge(made['id'])

        seen = self.request('GET', f'/attachments/{attachment["id"]}')['attachment']
        self.assertEqual('rbd', seen['connection_info']['driver_volume_type'])
        info = self.connection(self.volume_)
        self.assertEqual(('rbd', str(self.image(self.volume_))),
                         (info['driver_volume_type'], info['data']['name']))
        self.qemu_io(self.volume_, info, _SEEN, 'read -P 0 64k 64k')
        self.assertEqual('in-use', self.volume(self.volume_id)['status'])

    def test_dirty_volume_keeps_its_primary(self) -> None:
        primary = self.make_primary(self.volume_)
        made = self.superpose(self.volume_id)
        self.assertFalse(self.request(
            'POST', f'/os-superpositions/{made["id"]}/check')['check']['dirty'])
        self.assertEqual(0, primary.write(1 << 20, 0x51))
        check = self.request('POST', f'/os-superpositions/{made["id"]}/check')['check']
        self.assertTrue(check['dirty'])
        self.assertIn('was written', check['first'])
        # The watch of the service finds it, too.
        self.wait('dirty superposition', lambda: self.superposition(made['id'])['dirty'])
        self.assertEqual('dirty', self.collapse(made['id'])['outcome'])
        self.wait_gone(made['id'])
        self.assertEqual(0, primary.write(2 << 20, 0x52))

    def test_deleted_superposition_keeps_the_primary(self) -> None:
        primary = self.make_primary(self.volume_)
        made = self.superpose(self.volume_id)
        self.qemu_io(self.volume_, self.connections(made['id'])[self.volume_id], _CHILD)
        self.request('DELETE', f'/os-superpositions/{made["id"]}', expect=204)
        self.wait_gone(made['id'])
        self.assertEqual(0, primary.write(4096, 0x51))
        self.assertEqual(b'\x50' * 4096 + b'\x51' * 4096, primary.read(0, 8192))

    def test_collapse_can_abort(self) -> None:
        made = self.superpose(self.volume_id)
        answer = self.request('POST', f'/os-superpositions/{made["id"]}/collapse',
                              {'collapse': {'decision': 'abort'}})
        self.assertEqual('aborted', answer['collapse']['outcome'])
        self.wait_gone(made['id'])

    def test_merged_volume_can_be_extended_and_superposed_again(self) -> None:
        made = self.superpose(self.volume_id)
        self.collapse(made['id'])
        self.merge(made['id'])
        self.request('POST', f'/volumes/{self.volume_id}/action', {'os-extend': {'new_size': 2}},
                     expect=202)
        self.wait('longer volume', lambda: self.volume(self.volume_id)['size'] == 2)
        self.wait_status(self.volume_id, 'available')
        again = self.superpose(self.volume_id)
        self.assertNotEqual(made['id'], again['id'])
