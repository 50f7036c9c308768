# SPDX-License-Identifier: Apache-2.0
"""Servers whose host fails while a job of Cinder reads a volume of theirs elsewhere."""

import os
import signal
from typing import Any
import uuid

from cloud import drill as drills
from cloud.openstack import cinder
from cloud.openstack import services
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.engine import base

_OVER = ('available', 'error')


class TestRead(base.EngineTestCase):
    """The reader stands still while the server is recovered, and then goes on."""

    def test_server_whose_volume_is_backed_up_is_recovered(self) -> None:
        written = self.enterContext(self.cloud.backups())
        server = self.boot()
        backup = self.back_up(server)
        self.wait('the backup to read', lambda: any(
            path.is_file() for path in written.rglob('*')))
        go_on = self.hold(services.CINDER_BACKUP)
        here = self.recovered(server, 'backing-up')

        go_on()
        self.wait('the backup to end', lambda: self.backup(backup)['status'] in _OVER)
        self.assertFree(here)
        again = self.back_up(here)
        self.wait('the second backup to end', lambda: self.backup(again)['status'] in _OVER)
        self.assertEqual('available', self.backup(again)['status'],
                         self.backup(again)['fail_reason'])
        self.assertFree(here)

    def test_server_whose_volume_is_uploaded_is_recovered(self) -> None:
        server = self.boot()
        image = self.upload(server)
        self.wait('the upload to begin', lambda: self.is_saving(image))
        # The reader waits for Glance, which takes nothing.
        go_on = self.hold(services.GLANCE)
        here = self.recovered(server, 'uploading')

        go_on()
        self.wait('the upload to end', lambda: self.image(image) not in ('queued', 'saving'))
        self.assertFree(here)
        again = self.upload(here)
        self.wait('the second upload', lambda: self.image(again) == 'active')
        self.wait('the volume to be read', lambda: self.volume(here)['status'] == 'in-use')
        self.assertFree(here)

    def recovered(self, server: drills.Server, status: str) -> drills.Server:
        """Assert that a server whose host fails is recovered and merged, as was promised."""
        self.assertEqual(status, self.volume(server)['status'])
        self.assertEqual('speculative', self.openstack('server', 'check', server.id)['recovery'])
        self.host(cloud_base.PRIMARY).kill()
        here = self.assertRecovered(server)
        api = cinder.Api(self.cloud.session())
        self.wait('the merge to end', lambda: not api.superpositions())
        self.assertFree(here)
        return here

    def assertFree(self, server: drills.Server) -> None:
        """Assert that nobody works on a server's volume, which only its host has."""
        shown = self.volume(server)
        self.assertEqual(('in-use', [(server.id, server.host)]), (shown['status'], [
            (attachment['server_id'], attachment['host_name'])
            for attachment in shown['attachments']]))
        self.wait_answer(server)

    def hold(self, name: str) -> Any:
        """Stop all processes of a service where they are, and return what lets them go on."""
        group = self.cloud.pid(name)
        os.killpg(group, signal.SIGSTOP)
        self.addCleanup(os.killpg, group, signal.SIGCONT)
        return lambda: os.killpg(group, signal.SIGCONT)

    def volume(self, server: drills.Server) -> dict[str, Any]:
        """Return the volume of a server as Cinder shows it."""
        shown: dict[str, Any] = self.drill.volume.get(
            f'/volumes/{server.volumes[0]}').json()['volume']
        return shown

    def back_up(self, server: drills.Server) -> str:
        """Begin to back up the volume of a server."""
        made = str(self.drill.volume.post('/backups', json={'backup': {
            'volume_id': server.volumes[0], 'force': True}}).json()['backup']['id'])
        path = f'/backups/{made}'
        self.addCleanup(self.wait, f'backup {made} to be gone', lambda: self.drill.volume.get(
            path, raise_exc=False).status_code == 404)
        self.addCleanup(self.drill.volume.delete, path, raise_exc=False)
        return made

    def backup(self, backup_id: str) -> dict[str, Any]:
        """Return a backup of a volume as Cinder shows it."""
        shown: dict[str, Any] = self.drill.volume.get(f'/backups/{backup_id}').json()['backup']
        return shown

    def upload(self, server: drills.Server) -> str:
        """Begin to make an image of the volume of a server."""
        made = str(self.drill.volume.post(f'/volumes/{server.volumes[0]}/action', json={
            'os-volume_upload_image': {
                'image_name': f'test-{uuid.uuid4().hex[:8]}', 'force': True,
                'disk_format': 'raw', 'container_format': 'bare'}}
        ).json()['os-volume_upload_image']['image_id'])
        self.addCleanup(self.drill.image.delete, f'/v2/images/{made}', raise_exc=False)
        return made

    def is_saving(self, image_id: str) -> bool:
        """Return whether the upload of an image has begun, and assert that it has not ended."""
        status = self.image(image_id)
        self.assertIn(status, ('queued', 'saving'), 'see the log of cinder-volume')
        return status == 'saving'

    def image(self, image_id: str) -> str:
        """Return the status of an image, or `gone`."""
        answer = self.drill.image.get(f'/v2/images/{image_id}', raise_exc=False)
        return str(answer.json()['status']) if answer.status_code == 200 else 'gone'
