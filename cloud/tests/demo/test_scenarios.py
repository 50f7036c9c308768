# SPDX-License-Identifier: Apache-2.0
"""The fastest sound start, and the waits of users, on a stage without a cloud."""

import contextlib
import json
import pathlib
from typing import Any
from unittest import mock

import fixtures
import testtools

from cloud import drill as drills
from cloud import users
from cloud.demo import scenarios
from cloud.demo import stage as stages


class FastestTest(testtools.TestCase):

    def test_host_is_shut_out_before_backups_start_and_are_promoted(self) -> None:
        done: list[tuple[str, str]] = []
        servers = [drills.Server(name, name, stages.HOME, '192.0.2.1', ()) for name in 'ab']

        def start(server: drills.Server, host: str, _superposition: str) -> str:
            done.append((f'started on {host}', server.id))
            return server.id
        drill = mock.Mock()
        drill.superpose.side_effect = lambda server, dead: done.append(
            ('shut out' if dead else 'superposed', server.id))
        drill.start.side_effect = start
        drill.promote.side_effect = lambda backup: done.append(('promoted', backup))
        drill.adopt.side_effect = lambda backup: done.append(('adopted', backup))
        drill.show.return_value = {'OS-EXT-SRV-ATTR:host': stages.OTHER, 'status': 'ACTIVE'}
        drill.running.return_value = [stages.OTHER]
        drill.wait.return_value = (4.0, 2.0)
        stage = mock.Mock(drill=drill)
        pair = stages.Pair(servers[0], servers[1], mock.Mock(), mock.Mock())
        stage.screen.busy.return_value = contextlib.nullcontext()
        stage.servers.return_value = contextlib.nullcontext(pair)
        stage.callers.return_value = contextlib.nullcontext(mock.Mock())
        stage.kill.return_value = 100.0
        stage.leave.return_value = ({'outages': []}, {'outages': []})
        client: Any = pair.client
        client.ledger.return_value = {1: 99.0, 2: 2e10}
        client.verify.return_value = {'missing': [], 'wrong': []}
        client.events.return_value = []
        result = scenarios.fastest(stage, 8.0)
        for name in 'ab':
            self.assertEqual(
                ['shut out', f'started on {stages.OTHER}', 'promoted', 'adopted'],
                [what for what, server in done if server == name])
        self.assertEqual((), result.wrong)
        self.assertEqual(['super', 'start', 'race'], [phase.name for phase in result.phases])
        self.assertEqual(4.0, result.blocking_s)


class WaitsTest(testtools.TestCase):

    def test_users_who_came_before_the_return_have_waited(self) -> None:
        place = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        callers = users.Callers(mock.Mock(), place)

        def event(kind: str, at: float, came: float) -> str:
            return json.dumps({'at': at, 'event': kind, 'more': {'came': came}}) + '\n'
        lines = [event('came', came, came) for came in (8.0, 9.5, 12.0, 31.0)]
        lines += [event('served', 8.5, 8.0), event('served', 30.0, 9.5)]
        (place / 'events').write_text(''.join(lines))
        self.assertEqual((), callers.waits(10.0, 30.0))
        (place / 'events').write_text(''.join([*lines, event('served', 31.5, 12.0)]))
        self.assertEqual((20.5, 19.5), callers.waits(10.0, 30.0))
