# SPDX-License-Identifier: Apache-2.0
"""Masakari hands a host to the engine."""

from collections.abc import Iterator, Mapping
import subprocess
import sys
from typing import Any, cast
from unittest import mock

import fixtures
from osc_lib import exceptions as osc_exceptions
import testtools

from specreds_nova.masakari import hand_over

# In a process of its own: the options of Masakari and Nova exclude each other.
_LOADED = """
import logging
from unittest import mock
import masakari.conf
from masakari.engine.drivers.taskflow import base
from masakari import exception
masakari.conf.CONF(['--config-file', '/dev/null'], project='masakari')
masakari.conf.CONF.set_override('os_privileged_user_auth_url', 'http://127.0.0.1:5000/v3')
[task] = base.get_recovery_flow(['specreds_hand_over_host'], context=None, novaclient=None)
from specreds_nova.masakari import hand_over
from specreds_nova.masakari import task as tasks
assert task.requires == {'host_name', 'notification_uuid'}, task.requires
with mock.patch.object(hand_over, 'hand_over',
                       side_effect=hand_over.HandOverFailedError('held back')) as called:
    try:
        task.execute('cn1', 'n1')
    except exception.HostRecoveryFailureException as exc:
        assert 'held back' in str(exc), exc
    else:
        raise AssertionError('the failure is lost')
assert called.call_args.args[1:3] == ('cn1', 'n1')
assert task.progress[-1]['message'] == 'held back'
print('loaded')
"""


class Engine:
    """The engine's API, with one host; each look at the host takes the next of its states."""

    def __init__(self, *states: tuple[str, list[str]]) -> None:
        self.states = list(states)
        self.said: list[tuple[str, str, str]] = []
        self.before: list[dict[str, Any]] = []
        self.ended: list[dict[str, Any]] = []

    def host(self, name: str) -> dict[str, Any]:
        """Return the host."""
        if name != 'cn1':
            raise osc_exceptions.CommandError(f'no engine has heard of a host {name}')
        state, recoveries = (
            self.states[0] if len(self.states) == 1 or not self.said else self.states.pop(0))
        return {'state': state, 'recoveries': [{'state': state} for state in recoveries]}

    def say(self, name: str, action: str, *, reason: str) -> None:
        """Take a word on the host."""
        self.said.append((name, action, reason))

    def recoveries(self, filters: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Return the recoveries of the host."""
        yield from self.before
        if 'state' not in filters:
            yield from self.ended


class HandOverTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.engine = Engine(('trusted', []), ('suspected', ['queued', 'racing']),
                             ('fenced', ['merging', 'racing']), ('fenced', ['merging']))
        self.reported: list[tuple[str, float]] = []
        self.clock = 0.0
        self.useFixture(fixtures.MonkeyPatch('time.monotonic', lambda: self.clock))
        self.useFixture(fixtures.MonkeyPatch('time.sleep', self._sleep))

    def _sleep(self, seconds: float) -> None:
        self.clock += seconds

    def _hand_over(self, host: str = 'cn1') -> None:
        hand_over.hand_over(cast(Any, self.engine), host, 'n1',
                            lambda *words: self.reported.append(words))

    def test_host_is_suspected_until_its_servers_serve(self) -> None:
        self.engine.before = [{'id': 'r0', 'server_id': 's0', 'outcome': 'failed'}]
        self.engine.ended = [{'id': 'r1', 'server_id': 's1', 'outcome': 'recovered'}]
        self._hand_over()
        self.assertEqual([('cn1', 'suspect', 'Masakari was notified: n1')], self.engine.said)
        self.assertEqual(1, len(self.engine.states))
        self.assertEqual(('the engine has recovered host cn1, servers: 1', 1.0),
                         self.reported[-1])

    def test_host_that_has_no_recoveries_yet_is_waited_for(self) -> None:
        self.engine = Engine(('trusted', []), ('suspected', []), ('suspected', []),
                             ('suspected', ['racing']), ('fenced', ['merging']))
        engine, created = self.engine, [{'id': 'r1', 'server_id': 's1', 'outcome': None}]
        with mock.patch.object(engine, 'recoveries', side_effect=lambda filters: (
                created if len(engine.states) < 3 else [])):
            self._hand_over()
        self.assertEqual(1, len(engine.states))
        self.assertIn('cn1, servers: 1', self.reported[-1][0])

    def test_host_without_servers_is_done_in_the_end(self) -> None:
        self.engine = Engine(('suspected', []))
        self._hand_over()
        self.assertIn('cn1, servers: 0', self.reported[-1][0])
        self.assertLess(self.clock, 60.0)

    def test_name_with_a_domain_is_understood(self) -> None:
        self._hand_over('cn1.example.org')
        self.assertEqual('cn1', self.engine.said[0][0])

    def test_engine_that_does_not_act_is_a_failure(self) -> None:
        self.engine = Engine(('held', []))
        error = self.assertRaises(hand_over.HandOverFailedError, self._hand_over)
        self.assertIn('does not act', str(error))

    def test_server_that_is_not_recovered_is_a_failure(self) -> None:
        self.engine.ended = [{'id': 'r1', 'server_id': 's1', 'outcome': 'recovered'},
                             {'id': 'r2', 'server_id': 's2', 'outcome': 'failed'}]
        error = self.assertRaises(hand_over.HandOverFailedError, self._hand_over)
        self.assertIn('not recovered: s2', str(error))

    def test_unknown_host_is_a_failure(self) -> None:
        error = self.assertRaises(hand_over.HandOverFailedError, self._hand_over, 'cn9')
        self.assertIn('cn9', str(error))
        self.assertEqual([], self.engine.said)


class TaskTest(testtools.TestCase):

    def test_masakari_loads_the_task_by_its_name(self) -> None:
        done = subprocess.run([sys.executable, '-W', 'ignore', '-c', _LOADED],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual('loaded', done.stdout.strip(), done.stderr)
