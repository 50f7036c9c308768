# SPDX-License-Identifier: Apache-2.0
"""Restarted volume services continue superpositions, also when broker or database restart."""

from collections.abc import Iterator
import contextlib
import dataclasses
from typing import Any

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.cloud import base

_SERVICE = 'cinder-volume-rbd'
_EBLOCKLISTED = -108


class ServicesTestCase(base.CloudTestCase):
    """A test that kills services."""

    @contextlib.contextmanager
    def dead(self, *names: str) -> Iterator[None]:
        """Kill services, start them again in the end, and wait until they answer."""
        for name in names:
            self.cloud.kill_daemon(name)
        try:
            yield
        finally:
            for name in names:
                self.cloud.start_daemon(name)
            self.cloud.wait_ready()
            self.wait('volume service', self.answers)

    def answers(self) -> bool:
        """Return whether the volume services answer."""
        answer = self.api().request('/os-superpositions', 'GET')
        return answer.status_code == 200 and not answer.json().get('unreachable_hosts')


class KilledTest(ServicesTestCase):
    """cinder-volume is killed in each state of a superposition, and started again."""

    def setUp(self) -> None:
        super().setUp()
        self.volume_ = self.make_volume()
        self.primary = self.make_primary(self.volume_)
        self.protocol = sp.Protocol(self.cluster())
        self.home = self.image(self.volume_).home

    def record(self, made: dict[str, Any]) -> sp.Record:
        """Return a superposition's record."""
        return self.protocol.show(made['id'], self.home)

    def assert_primary_lives(self) -> None:
        """Assert that the primary can write, and that the volume can be superposed."""
        self.assertEqual(0, self.primary.write(1 << 20, 0x51))
        made = self.superpose(self.volume_['id'])
        self.request('DELETE', f'/os-superpositions/{made["id"]}', expect=204)

    def test_interrupted_creation_is_removed(self) -> None:
        made = self.superpose(self.volume_['id'])
        record = self.record(made)
        with self.dead(_SERVICE):
            self.protocol.abort(record)
            again = dataclasses.replace(record, state=states.CREATING, cuts={}, version=0)
            self.protocol.store.create(again)
            self.protocol.store.claim(record.volumes[0], record.id, record.home)
        self.wait_gone(made['id'])
        self.assert_primary_lives()

    def test_superposition_is_watched_after_a_restart(self) -> None:
        made = self.superpose(self.volume_['id'])
        with self.dead(_SERVICE):
            pass
        self.assertEqual('superposed', self.superposition(made['id'])['state'])
        # It is watched again.
        self.assertEqual(0, self.primary.write(1 << 20, 0x51))
        self.wait('dirty superposition', lambda: self.superposition(made['id'])['dirty'])
        self.assertEqual('dirty', self.collapse(made['id'])['outcome'])
        self.assert_primary_lives()

    def collapsing(self, made: dict[str, Any], fence: bool) -> None:
        """Take the first steps of a collapse."""
        record = self.record(made)
        self.protocol.store.swap(record, record.moved(
            states.COLLAPSING, fenced=tuple(sorted(record.clients))))
        if fence:
            self.protocol.fence.close(record.clients)

    def test_interrupted_collapse_is_continued(self) -> None:
        made = self.superpose(self.volume_['id'])
        with self.dead(_SERVICE):
            self.collapsing(made, fence=True)
        self.wait('decision', lambda: self.superposition(made['id'])['state'] == 'promoted')
        self.assertEqual(_EBLOCKLISTED, self.primary.write(0, 0x99))
        self.merge(made['id'])

    def test_interrupted_collapse_of_a_dirty_volume_is_dropped(self) -> None:
        made = self.superpose(self.volume_['id'])
        with self.dead(_SERVICE):
            self.collapsing(made, fence=False)
            self.assertEqual(0, self.primary.write(1 << 20, 0x52))
        self.wait_gone(made['id'])
        self.assert_primary_lives()

    def test_promoted_volume_is_merged_after_a_restart(self) -> None:
        made = self.superpose(self.volume_['id'])
        self.qemu_io(self.volume_, self.connections(made['id'])[self.volume_['id']],
                     'write -P 0xc1 0 64k')
        with self.dead(_SERVICE):
            self.assertEqual('promoted', self.protocol.collapse(
                self.record(made), durable=True).outcome)
        info = self.connection(self.volume_)
        self.assertEqual('rbd_super', info['driver_volume_type'])
        self.qemu_io(self.volume_, info, 'read -P 0xc1 0 64k')
        self.merge(made['id'])
        self.qemu_io(self.volume_, self.connection(self.volume_), 'read -P 0xc1 0 64k')

    def test_interrupted_merge_is_repeated(self) -> None:
        made = self.superpose(self.volume_['id'])
        self.qemu_io(self.volume_, self.connections(made['id'])[self.volume_['id']],
                     'write -P 0xc1 0 96M')
        self.collapse(made['id'])
        self.request('POST', f'/os-superpositions/{made["id"]}/merge',
                     {'merge': {'step': 'offline'}}, expect=202)
        self.wait('merge', lambda: self.superposition(made['id'])['state'] == 'merging')
        with self.dead(_SERVICE):
            self.assertEqual(states.MERGING, self.record(made).state)
        self.assertEqual('rbd_super', self.connection(self.volume_)['driver_volume_type'])
        self.merge(made['id'])
        self.qemu_io(self.volume_, self.connection(self.volume_), 'read -P 0xc1 0 96M')

    def test_interrupted_abort_is_continued(self) -> None:
        made = self.superpose(self.volume_['id'])
        with self.dead(_SERVICE):
            record = self.record(made)
            self.protocol.store.swap(record, record.moved(
                states.ABORTING, outcome=states.ABORTED))
        self.wait_gone(made['id'])
        self.assert_primary_lives()


class RestartTest(ServicesTestCase):
    """The broker and the database of the services are killed and restarted."""

    def whole_life(self) -> None:
        """Superpose, promote and merge."""
        made = self.superpose(self.volume_['id'])
        self.assertEqual('promoted', self.collapse(made['id'])['outcome'])
        self.merge(made['id'])

    def setUp(self) -> None:
        super().setUp()
        self.volume_ = self.make_volume()

    def survived(self, service: str) -> None:
        """Kill a service during a superposition, and assert that superpositions work after it."""
        made = self.superpose(self.volume_['id'])
        with self.dead(service):
            pass
        self.assertEqual('superposed', self.superposition(made['id'])['state'])
        self.request('DELETE', f'/os-superpositions/{made["id"]}', expect=204)
        self.whole_life()

    def test_superposition_outlives_the_broker(self) -> None:
        self.survived('rabbitmq')

    def test_superposition_outlives_the_database(self) -> None:
        self.survived('mariadb')

    def test_volume_is_not_deleted_while_its_service_is_down(self) -> None:
        made = self.superpose(self.volume_['id'])
        with self.dead(_SERVICE):
            self.wait('sign that it is down', lambda: self.api().request(
                f'/os-superpositions/{made["id"]}/check', 'POST').status_code == 503)
            # In doubt, the volume is not changed.
            message = self.refused('DELETE', f'/volumes/{self.volume_["id"]}', status=503)
            self.assertIn('down', message)
        self.assertEqual('superposed', self.superposition(made['id'])['state'])
