# SPDX-License-Identifier: Apache-2.0
"""Base of the tests on a cloud: its API as each persona, volumes, superpositions, writers."""

from collections.abc import Callable, Mapping, Sequence
import json
import os
import subprocess
import time
from typing import Any
import uuid

from keystoneauth1 import adapter
import testtools
from testtools import content

from cloud import cloud as clouds
from cloud.openstack import layout
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.tests.functional import actors

_ENVIRONMENT = 'SPECREDS_TEST_CLOUD'
_SECONDS = 90
GONE = 404


class CloudTestCase(testtools.TestCase):
    """A test on the cloud that `./run test` starts.

    Volumes belong to the project ``demo``, superpositions are created by the administrator. What a
    test makes with the methods below is removed when it ends.
    """

    def setUp(self) -> None:
        super().setUp()
        data = os.environ.get(_ENVIRONMENT)
        if not data:
            self.skipTest(f'{_ENVIRONMENT} does not name the data directory of a running cloud; '
                          './run test does that')
        self.cloud = clouds.Cloud(data)
        losses = self.cloud.losses()

        def explain(_failure: object) -> None:
            if lost := losses.found():
                self.addDetail('lost services', content.text_content('\n'.join(lost)))
        self.addOnException(explain)
        self._apis: dict[str, adapter.Adapter] = {}
        self._clusters: dict[str, ceph.Cluster] = {}

    # Requests

    def api(self, persona: str = 'admin') -> adapter.Adapter:
        """Return Cinder's API as a persona; it raises no error for any status."""
        if persona not in self._apis:
            self._apis[persona] = adapter.Adapter(
                self.cloud.session(persona), service_type='block-storage', interface='public',
                default_microversion='3.70', raise_exc=False)
        return self._apis[persona]

    def request(self, method: str, path: str, body: Any = None, *, persona: str = 'admin',
                expect: int | Sequence[int] = 200, headers: Mapping[str, str] | None = None
                ) -> Any:
        """Send a request, and return the JSON of the answer.

        :param expect: the status that the answer must have, or several that it may have
        """
        response = self.api(persona).request(
            path, method, json=body, headers=dict(headers or {}))
        expected = [expect] if isinstance(expect, int) else expect
        self.assertIn(response.status_code, expected,
                      f'{method} {path}: {response.text[:600]}')
        return response.json() if response.text else None

    def refused(self, method: str, path: str, body: Any = None, *,
                status: int | Sequence[int], persona: str = 'admin') -> str:
        """Send a request that must be refused, and return the message."""
        answer = self.request(method, path, body, persona=persona, expect=status)
        message: str = next(iter(answer.values()))['message']
        return message

    def openstack(self, *words: str, persona: str = 'admin') -> Any:
        """Run the command line, and return its output as parsed JSON."""
        return json.loads(self.command(*words, '-f', 'json', persona=persona))

    def command(self, *words: str, persona: str = 'admin', code: int = 0) -> str:
        """Run the command line, and return its output, or its errors where it has to fail.

        :param code: the exit status that it must have
        """
        done = subprocess.run([str(layout.BIN / 'openstack'), *words], capture_output=True,
                              text=True, timeout=_SECONDS, stdin=subprocess.DEVNULL,
                              env={**os.environ, **self.cloud.environment(persona)})
        self.assertEqual(code, done.returncode, f'{words}: {done.stdout}{done.stderr}')
        return done.stdout if code == 0 else done.stderr

    def wait(self, what: str, condition: Callable[[], Any], seconds: float = _SECONDS) -> Any:
        """Wait until a function returns a true value, and return that."""
        deadline = time.monotonic() + seconds
        while True:
            if value := condition():
                return value
            if time.monotonic() > deadline:
                self.fail(f'after {seconds:g} s there is still no {what}')
            time.sleep(0.1)

    # Volumes

    def make_volume(self, backend: str = 'rbd', *, persona: str = 'demo', size: int = 1,
                    **more: Any) -> dict[str, Any]:
        """Create a volume."""
        volume: dict[str, Any] = self.request('POST', '/volumes', {'volume': {
            'size': size, 'volume_type': backend, 'name': f'test-{uuid.uuid4().hex[:8]}', **more,
        }}, persona=persona, expect=202)['volume']
        self.addCleanup(self.remove_volume, volume['id'])
        return self.wait_status(volume['id'], 'available')

    def wait_status(self, volume_id: str, *statuses: str) -> dict[str, Any]:
        """Wait until a volume has a status."""
        def found() -> dict[str, Any] | None:
            volume: dict[str, Any] = self.volume(volume_id)
            self.assertTrue('error' not in volume['status'] or volume['status'] in statuses,
                            f'volume {volume_id} is {volume["status"]}')
            return volume if volume['status'] in statuses else None
        volume: dict[str, Any] = self.wait(f'{volume_id} {"/".join(statuses)}', found)
        return volume

    def volume(self, volume_id: str) -> dict[str, Any]:
        """Return a volume."""
        volume: dict[str, Any] = self.request('GET', f'/volumes/{volume_id}')['volume']
        return volume

    def remove_volume(self, volume_id: str) -> None:
        """Remove a volume in any state, with its superpositions and attachments."""
        for superposition in self.superpositions(volume_id=volume_id):
            self.end(superposition['id'])
        for attachment in self.request(
                'GET', f'/attachments?all_tenants=1&volume_id={volume_id}')['attachments']:
            self.detach(attachment['id'])
        self.wait(f'removal of volume {volume_id}', lambda: self._removed(volume_id))

    def _removed(self, volume_id: str) -> bool:
        """Return whether a volume is gone, and delete it if possible."""
        answer = self.api().request(f'/volumes/{volume_id}', 'GET')
        if answer.status_code == GONE:
            return True
        if answer.json()['volume']['status'] in ('available', 'error'):
            self.request('DELETE', f'/volumes/{volume_id}', expect=(202, GONE))
        return False

    def attach(self, volume_id: str, server_id: str, persona: str = 'demo') -> dict[str, Any]:
        """Attach a volume as Nova does, and return the attachment."""
        attachment: dict[str, Any] = self.request('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': server_id,
            'connector': {'host': 'host-1', 'ip': '127.0.0.1', 'os_type': 'linux',
                          'platform': 'x86_64', 'multipath': False}}},
            persona=persona)['attachment']
        self.request('POST', f'/attachments/{attachment["id"]}/action', {'os-complete': None},
                     persona=persona, expect=204)
        return attachment

    def detach(self, attachment_id: str) -> None:
        """Remove an attachment as Nova does: with the token of a service."""
        token = self.cloud.session('service').get_token() or ''
        self.request('DELETE', f'/attachments/{attachment_id}', expect=(200, GONE),
                     headers={'X-Service-Token': token})

    # Superpositions

    def superpose(self, *volume_ids: str, **more: Any) -> dict[str, Any]:
        """Put volumes into superposition."""
        made: dict[str, Any] = self.request('POST', '/os-superpositions', {'superposition': {
            'volume_ids': list(volume_ids), **more}}, expect=201)['superposition']
        self.addCleanup(self.end, made['id'])
        return made

    def superposition(self, superposition_id: str) -> dict[str, Any]:
        """Return a superposition."""
        superposition: dict[str, Any] = self.request(
            'GET', f'/os-superpositions/{superposition_id}')['superposition']
        return superposition

    def superpositions(self, **filters: str) -> list[dict[str, Any]]:
        """Return superpositions of all projects."""
        query = '&'.join(f'{key}={value}' for key, value in
                         {'all_tenants': '1', **filters}.items())
        superpositions: list[dict[str, Any]] = self.request(
            'GET', f'/os-superpositions?{query}')['superpositions']
        return superpositions

    def collapse(self, superposition_id: str, *, durable: bool = True,
                 expect: int = 200) -> dict[str, Any]:
        """Decide for the backup, unless the primary has written.

        :param durable: as qemu-io, which has flushed, leaves the disks of the backup
        """
        answer: dict[str, Any] = self.request(
            'POST', f'/os-superpositions/{superposition_id}/collapse',
            {'collapse': {'decision': 'promote', 'backup_durable': durable}}, expect=expect)
        return answer['collapse'] if expect == 200 else answer

    def merge(self, superposition_id: str) -> None:
        """Merge a promoted superposition, and wait for its end.

        The request is repeated: a client that was killed has an overlay open for half a minute
        more, and the service itself tries again only later.
        """
        def merged() -> bool:
            self.request('POST', f'/os-superpositions/{superposition_id}/merge',
                         {'merge': {'step': 'offline'}}, expect=(202, GONE))
            return self.api().request(
                f'/os-superpositions/{superposition_id}', 'GET').status_code == GONE
        self.wait(f'merge of superposition {superposition_id}', merged, 2 * _SECONDS)

    def wait_gone(self, superposition_id: str) -> None:
        """Wait until a superposition has ended."""
        self.wait(f'end of superposition {superposition_id}', lambda: self.api().request(
            f'/os-superpositions/{superposition_id}', 'GET').status_code == GONE)

    def end(self, superposition_id: str) -> None:
        """End a superposition in whatever state it is."""
        answer = self.api().request(f'/os-superpositions/{superposition_id}', 'GET')
        if answer.status_code == GONE:
            return
        if answer.json()['superposition']['state'] in ('promoted', 'merging', 'merged'):
            self.merge(superposition_id)
            return
        self.request('DELETE', f'/os-superpositions/{superposition_id}',
                     expect=(202, 204, GONE))
        self.wait_gone(superposition_id)

    # Writers

    def cluster(self, backend: str = 'rbd') -> ceph.Cluster:
        """Return a back end's Ceph, as the back end's user."""
        if backend not in self._clusters:
            facts = next(each for each in self.cloud.backends if each.name == backend)
            self._clusters[backend] = ceph.Cluster(str(facts.conf), facts.user)
            self.addCleanup(self._clusters[backend].close)
        return self._clusters[backend]

    def image(self, volume: Mapping[str, Any]) -> records.VolumeRef:
        """Return a volume's RBD image."""
        backend = next(each for each in self.cloud.backends
                       if each.name == volume['volume_type'])
        return records.VolumeRef(backend.pool, '', f'volume-{volume["id"]}')

    def make_primary(self, volume: Mapping[str, Any]) -> actors.Primary:
        """Start a process that has a volume open, and let it write."""
        primary = actors.Primary(self.cluster(volume['volume_type']), self.image(volume))
        self.addCleanup(primary.end)
        self.assertEqual(0, primary.write(0, 0x50))
        return primary

    def connections(self, superposition_id: str) -> dict[str, dict[str, Any]]:
        """Return the connections of the child versions, by volume."""
        connections = self.request(
            'POST', f'/os-superpositions/{superposition_id}/connection',
            {'connector': {'host': 'host-2', 'ip': '127.0.0.1'}})['connections']
        return {each['volume_id']: each for each in connections}

    def connection(self, volume: Mapping[str, Any]) -> dict[str, Any]:
        """Return a volume's connection, as a hypervisor gets it at any time."""
        info: dict[str, Any] = self.request(
            'POST', f'/volumes/{volume["id"]}/action',
            {'os-initialize_connection': {'connector': {'host': 'host-3', 'ip': '127.0.0.1'}}}
        )['connection_info']
        return info

    def chain(self, volume: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, Any]:
        """Return QEMU's node of a connection, from the connection alone."""
        conffile = self.cluster(volume['volume_type']).conffile

        def image(name: str) -> dict[str, Any]:
            pool, image = name.split('/')
            return {'driver': 'rbd', 'pool': pool, 'image': image, 'conf': conffile,
                    'user': info['data']['auth_username'], 'discard': 'unmap'}
        if info['driver_volume_type'] == 'rbd':
            return {'driver': 'raw', 'file': image(info['data']['name'])}
        self.assertEqual('rbd_super', info['driver_volume_type'])
        versions = info['data']['superposition']
        return {'driver': versions['overlay']['format'],
                'file': image(versions['overlay']['name']),
                'backing': {'driver': 'raw', 'file': image(versions['backing']['name'])}}

    def qemu_io(self, volume: Mapping[str, Any], info: Mapping[str, Any], *commands: str) -> str:
        """Open the image of a connection, as a guest would, and read or write."""
        words = [word for command in commands for word in ('-c', command)]
        done = subprocess.run(
            ['qemu-io', *words, 'json:' + json.dumps(self.chain(volume, info))],
            capture_output=True, text=True, timeout=_SECONDS, stdin=subprocess.DEVNULL)
        self.assertEqual(0, done.returncode, done.stderr)
        # qemu-io reports a wrong pattern on the standard output, with status 0.
        self.assertNotIn('failed', done.stdout)
        return done.stdout
