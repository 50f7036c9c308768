# SPDX-License-Identifier: Apache-2.0
"""What a recovery does if the new host of its server fails before the merge has ended."""

from typing import Any
from unittest import mock

import ddt

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import evacuation
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import merge
from specreds_nova.tests.unit.engine.recovery import base

_ADOPTED = verdicts.StepVerdict(verdicts.ADOPTED)


@ddt.ddt
class SecondFailureTest(base.RecoveryTest):
    """The server is on h2, which has failed; its superposition is gone after some looks."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect('h2')
        self.context = self.make_context(evacuate_after=60.0)
        self.looks = 0
        # Each request to Cinder and Nova, with the look that came before the request.
        self.asked: list[tuple[str, int]] = []
        self.volumes.written.side_effect = self.written
        self.volumes.fence.side_effect = self.fence
        self.server = base.make_server('a', host='h2')
        self.compute.server.side_effect = lambda _server: self.server

    def written(self, _superposition: str) -> int:
        """Return what was written, until the superposition is gone."""
        self.looks += 1
        if self.looks > 50:
            raise exception.NotFound('it is merged')
        return 1

    def fence(self, _server: model.Server, host: str, _recovery: str) -> int:
        """Shut a host out."""
        self.asked.append((f'fence {host}', self.looks))
        return 2

    def evacuate(self, _run: runs.Run, source: str, _detail: dict[str, Any]) -> None:
        """Have Nova move the server to h3."""
        self.asked.append((f'evacuate {source}', self.looks))
        self.server = base.make_server('a', host='h3')

    def merge(self) -> verdicts.StepVerdict:
        """Take the step."""
        recovery = self.make_recovery('a', state=model.MERGING, destination='h2',
                                      superposition='s1')
        with mock.patch.object(evacuation, 'evacuate', self.evacuate):
            return merge.merge(runs.Run(self.context, recovery), _ADOPTED)

    def test_server_is_left_to_the_recovery_of_its_new_host(self) -> None:
        self.assertEqual(_ADOPTED, self.merge())
        self.assertEqual([], self.asked)

    @ddt.data({'status': 'SHUTOFF'}, {'status': 'PAUSED'}, {'status': 'ERROR'},
              {'metadata': {'specreds:protect': 'false'}})
    def test_server_that_may_have_no_recovery_is_shut_out_and_evacuated_after_the_merge(
            self, values: dict[str, Any]) -> None:
        self.server = base.make_server('a', host='h2', **values)
        self.assertEqual(_ADOPTED, self.merge())
        self.assertEqual([('fence h2', 51), ('evacuate h2', 51)], self.asked)

    def test_nova_is_not_asked_before_the_merge_has_ended(self) -> None:
        self.context = self.make_context(evacuate_after=0.0)
        self.server = base.make_server('a', host='h2', status='SHUTOFF')
        self.assertEqual(_ADOPTED, self.merge())
        self.assertEqual([('fence h2', 51), ('evacuate h2', 51)], self.asked)

    def test_server_is_shut_out_after_evacuate_after(self) -> None:
        self.server = base.make_server('a', host='h2', status='SHUTOFF')
        self.looks, since = 50, self.store.host('h2').since
        self.assertEqual(_ADOPTED, self.merge())
        self.assertEqual(['fence h2', 'evacuate h2'], [request for request, _ in self.asked])
        self.assertGreaterEqual(self.clock.wall(), since + 60.0)

    def test_server_is_shut_out_once_tenants_cannot_see_it(self) -> None:
        self.context = self.make_context(evacuate_after=0.0, sentinel_network_lease=60.0)
        self.server = base.make_server('a', host='h2', status='SHUTOFF')
        self.looks, since = 50, self.clock.now()
        self.merge()
        self.assertEqual(2, len(self.asked))
        self.assertGreater(self.clock.now(), since + 60.0)

    def test_server_is_not_evacuated_before_its_host_is_shut_out(self) -> None:
        self.server = base.make_server('a', host='h2', status='SHUTOFF')
        self.volumes.fence.side_effect = [exception.Unreachable('late')] * 2 + [1]
        self.assertEqual(_ADOPTED, self.merge())
        self.assertEqual([('evacuate h2', 51)], self.asked)
        self.assertEqual(3, self.volumes.fence.call_count)

    def test_server_whose_host_cannot_be_shut_out_is_not_evacuated(self) -> None:
        self.server = base.make_server('a', host='h2', status='SHUTOFF')
        self.volumes.fence.side_effect = exception.Refused('it is attached on h4')
        verdict = self.merge()
        self.assertEqual(verdicts.FAILED, verdict.kind)
        self.assertIn('it is attached on h4', verdict.why)
        self.assertEqual([], self.asked)

    def test_host_that_is_back_keeps_its_server(self) -> None:
        self.server = base.make_server('a', host='h2', status='SHUTOFF')
        self.suspects.suspected.side_effect = lambda _host: self.looks <= 50
        self.assertEqual(_ADOPTED, self.merge())
        self.assertEqual([], self.asked)

    def test_nothing_is_done_while_a_gate_is_shut(self) -> None:
        self.server = base.make_server('a', host='h2', status='SHUTOFF')
        self.store.change_host(self.store.host('h2'), state=model.TRUSTED)
        self.assertEqual(_ADOPTED, self.merge())
        self.assertEqual([], self.asked)

    def test_nothing_is_done_while_no_host_is_heard(self) -> None:
        self.server = base.make_server('a', host='h2', status='SHUTOFF')
        until = self.clock.now() + 600.0
        self.suspects.healthy.side_effect = lambda: ['h3'] if self.clock.now() > until else []
        self.assertEqual(_ADOPTED, self.merge())
        self.assertEqual(2, len(self.asked))
        self.assertGreater(self.clock.now(), until)

    def test_nova_that_is_away_is_waited_for(self) -> None:
        self.server = base.make_server('a', host='h2', status='SHUTOFF')
        answers = [exception.Unreachable('nova is away')] * 3

        def server(_server: str) -> model.Server:
            if answers:
                raise answers.pop()
            return self.server
        self.compute.server.side_effect = server
        self.assertEqual(_ADOPTED, self.merge())
        self.assertEqual(['fence h2', 'evacuate h2'], [request for request, _ in self.asked])
