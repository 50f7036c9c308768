# SPDX-License-Identifier: Apache-2.0
"""Recoveries and hosts, parsed from the answers of the engine's API."""

from typing import Any
from unittest import mock

from keystoneauth1 import session as keystone_session
import testtools

from cloud.demo import recoveries
from specreds_nova.engine import model
from specreds_nova.engine.api import views

_RECOVERY = model.Recovery(
    'r1', 's1', 'db', 'p1', 'cn1', 100.25, state=model.ENDED, outcome=model.RECOVERED,
    engine='e1', created=100.5, ended=120.0, steps=(
        model.Step('race', 1, 'e1', 102.0, None, {
            'why': 'it is idle', 'early': True, 'first_frame_s': 2.0, 'held_s': 1.5}),
        model.Step('super', 1, 'e1', 101.0, 101.5)))


class EngineTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.answers: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, Any]] = []
        session = mock.Mock(spec=keystone_session.Session)
        session.request.side_effect = self.answer
        self.engine = recoveries.Engine(session)

    def answer(self, url: str, _method: str, **more: Any) -> mock.Mock:
        """Return an answer of the API."""
        self.asked.append((url, more.get('params')))
        return mock.Mock(json=lambda: self.answers[url])

    def test_recovery_is_parsed(self) -> None:
        shown = {**views.recovery(_RECOVERY, details=True),
                 'steps': views.timeline(_RECOVERY, details=True)}
        self.answers = {'/v1/recoveries': {'recoveries': [{'id': 'r1'}, {'id': 'r0'}]},
                        '/v1/recoveries/r1': {'recovery': shown}}
        recovery = self.engine.latest('s1')
        assert recovery is not None
        self.assertEqual(('/v1/recoveries', {'server_id': 's1'}), self.asked[0])
        self.assertEqual((100.25, 120.0, 'recovered'),
                         (recovery.suspected, recovery.ended, recovery.outcome))
        self.assertTrue(recovery.over)
        self.assertEqual((recoveries.Step('super', 101.0, 101.5, 'e1'),
                          recoveries.Step('race', 102.0, None, 'e1', why='it is idle',
                                          frame=105.5, first=104.0)),
                         recovery.steps)
        self.assertTrue(recovery.begun('race'))
        self.assertFalse(recovery.begun('promote'))

    def test_server_without_a_recovery_has_none(self) -> None:
        self.answers = {'/v1/recoveries': {'recoveries': []}}
        self.assertIsNone(self.engine.latest('s1'))
        self.assertEqual([], self.engine.ids())

    def test_hosts_have_their_states(self) -> None:
        hosts = [model.Host('cn1', model.FENCED, 1, 5.0), model.Host('cn2')]
        self.answers = {'/v1/hosts': {'hosts': [views.host(host) for host in hosts]}}
        self.assertEqual({'cn1': 'fenced', 'cn2': 'trusted'}, self.engine.hosts())

    def test_words_are_those_of_the_engine(self) -> None:
        self.assertEqual(
            (model.TRUSTED, model.ENDED, model.RECOVERED, model.PRIMARY, model.RESTARTED),
            (recoveries.TRUSTED, recoveries.ENDED, recoveries.RECOVERED, recoveries.PRIMARY,
             recoveries.RESTARTED))
