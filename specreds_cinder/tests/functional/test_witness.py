# SPDX-License-Identifier: Apache-2.0
"""The second opinion through RADOS, with the capabilities that it needs."""

import contextlib
import json
import pathlib
import threading
import time
from typing import Any

import ddt
import fixtures
import rados

from specreds_cinder import capabilities
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.tests.functional import base
from specreds_nova.sentinel import witness

_HOST, _OTHER = 'node7', 'node8'
_SERVERS = frozenset({'s1', 's2'})
_PATIENCE = 30.0


@ddt.ddt
class WitnessTest(base.FunctionalTestCase):
    """A sentinel that watches its object, and the host of a backup that asks it."""

    def setUp(self) -> None:
        super().setUp()
        self.running: frozenset[str] | None = _SERVERS
        self.silent: list[str] = []
        self.addCleanup(self._remove)

    def _remove(self) -> None:
        with self.administrator.open_ioctx(self.pool) as io:
            io.set_namespace(witness.NAMESPACE)
            with contextlib.suppress(rados.ObjectNotFound):
                io.remove_object(witness.object_name(_HOST))

    def bear_witness(self, cluster: ceph.Cluster | None = None) -> witness.Witness:
        """Have the sentinel of the host answer."""
        sentinel = witness.Witness(_HOST, lambda: self.running)
        self.addCleanup(sentinel.close)
        sentinel.watch('cinder', cluster or self.cluster.apart(), self.pool)
        return sentinel

    def ask(self, cluster: ceph.Cluster | None = None, host: str = _HOST,
            seconds: float = _PATIENCE) -> frozenset[str] | None:
        answers: list[frozenset[str]] = []
        question = witness.Question(cluster or self.cluster, self.pool, host, seconds,
                                    answers.append, lambda: self.silent.append(host))
        deadline = time.monotonic() + 2 * _PATIENCE
        while not question.close():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return answers[0] if answers else None

    def client(self, **caps: str) -> ceph.Cluster:
        """Return a connection as a user with these capabilities."""
        user = f'w{self.getUniqueInteger()}-{self.id().rsplit(".", 1)[-1][-20:]}'
        keyring = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'keyring')
        words = [word for pair in caps.items() for word in pair]
        code, _, status = self.administrator.mon_command(json.dumps({
            'prefix': 'auth get-or-create', 'entity': f'client.{user}', 'caps': words}), b'')
        self.assertEqual(0, code, status)
        self.addCleanup(self.administrator.mon_command, json.dumps({
            'prefix': 'auth rm', 'entity': f'client.{user}'}), b'')
        _, key, _ = self.administrator.mon_command(json.dumps({
            'prefix': 'auth print-key', 'entity': f'client.{user}'}), b'')
        keyring.write_text(f'[client.{user}]\nkey = {key.decode()}\n')
        conf = keyring.with_name('ceph.conf')
        text = self.ceph.conf.read_text()
        conf.write_text('\n'.join(f'keyring = {keyring}' if line.startswith('keyring') else line
                                  for line in text.splitlines()) + '\n')
        connection = ceph.Cluster(str(conf), user, _PATIENCE)
        self.addCleanup(connection.close)
        return connection

    def test_sentinel_answers_which_servers_run(self) -> None:
        self.bear_witness()
        self.assertEqual(_SERVERS, self.ask())
        self.running = frozenset()
        self.assertEqual(frozenset(), self.ask())

    def test_silent_libvirt_has_no_opinion(self) -> None:
        self.bear_witness()
        self.running = None
        self.assertIsNone(self.ask())

    def test_host_without_a_sentinel_has_no_opinion(self) -> None:
        self.bear_witness().close()
        self.assertIsNone(self.ask())
        self.assertIsNone(self.ask(host=_OTHER))
        self.assertEqual([], self.silent)

    def test_sentinel_that_does_not_answer_in_time_is_silent(self) -> None:
        sentinel = self.bear_witness()
        over = threading.Event()
        self.addCleanup(over.set)

        def running() -> frozenset[str] | None:
            over.wait(_PATIENCE)
            return None
        sentinel._running = running
        self.assertIsNone(self.ask(seconds=1.0))
        self.assertEqual([_HOST], self.silent)

    def test_sentinel_watches_again_after_an_error(self) -> None:
        sentinel = self.bear_witness()
        sentinel._broken.add(('cinder', self.pool))
        sentinel.watch('cinder', self.cluster.apart(), self.pool)
        self.assertEqual(_SERVERS, self.ask())
        sentinel.watch('cinder', self.cluster.apart(), self.pool)
        with self.administrator.open_ioctx(self.pool) as io:
            io.set_namespace(witness.NAMESPACE)
            self.assertEqual(1, len(self._watchers(io)))

    @staticmethod
    def _watchers(io: Any) -> list[Any]:
        # python-rados has no list of watchers: each of them answers.
        answers: list[Any] = []
        answered = threading.Event()

        def done(_completion: Any, _code: int, acks: Any, _timeouts: Any) -> None:
            answers.extend(acks)
            answered.set()

        completion = io.aio_notify(witness.object_name(_HOST), done, '', int(_PATIENCE * 1e3))
        answered.wait(_PATIENCE)
        del completion
        return answers

    def test_documented_capabilities_are_sufficient(self) -> None:
        self.bear_witness(self.client(**capabilities.sentinel([self.pool])))
        self.assertEqual(_SERVERS, self.ask(self.client(**capabilities.sentinel([self.pool]))))

    def test_documented_capabilities_change_nothing_else(self) -> None:
        client = self.client(**capabilities.sentinel([self.pool]))
        with client.ioctx(self.pool) as io:
            self.assertRaises(rados.PermissionError, io.write_full, 'x', b'')

    @ddt.data('r', 'w')
    def test_each_documented_capability_is_necessary_to_answer(self, permission: str) -> None:
        caps = capabilities.sentinel([self.pool])
        caps['osd'] = caps['osd'].replace('allow rw', f'allow {permission}')
        # It cannot make or watch its object.
        self.bear_witness(self.client(**caps))
        self.assertIsNone(self.ask())

    def test_reading_is_sufficient_to_ask(self) -> None:
        caps = capabilities.sentinel([self.pool])
        caps['osd'] = caps['osd'].partition(', ')[0]
        self.bear_witness()
        self.assertEqual(_SERVERS, self.ask(self.client(**caps)))
