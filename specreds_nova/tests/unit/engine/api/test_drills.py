# SPDX-License-Identifier: Apache-2.0
"""Drills in the API."""

from typing import Any

import ddt

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.tests.unit.engine.api import base
from specreds_nova.tests.unit.engine.store import base as db_base

_PATH = f'/v1/servers/{base.SERVER}/action'
_DRILL: dict[str, Any] = {'drill': None}
_OBSERVED = 'the mode of node1 is observe'


@ddt.ddt
class DrillsTest(base.APITest):
    """A server that would have a backup."""

    def setUp(self) -> None:
        super().setUp()
        self.protection.recovery = 'speculative', []

    def test_drill_is_a_recovery_that_any_engine_takes(self) -> None:
        shown = self.request('POST', _PATH, _DRILL, status=202)['recovery']
        [recovery] = self.store.active()
        self.assertEqual((shown['id'], 'queued', 'vm1', 'a drill, requested by user u1'),
                         (recovery.id, shown['state'], shown['server_name'],
                          shown['why'][0]['words']))
        self.assertTrue(runs.is_drill(recovery))
        self.assertEqual([recovery.id], [free.id for free in self.store.free(set())])

    def test_server_on_a_host_that_is_only_observed_may_have_a_drill(self) -> None:
        self.protection.recovery = 'none', [_OBSERVED]
        self.request('POST', _PATH, _DRILL, status=202)

    @ddt.data(('evacuated', ['a volume is mirrored']), ('none', [_OBSERVED, 'it is SHUTOFF']),
              ('none', ['the mode of node1 is pause']),
              ('speculative', ['node1 is suspected']))
    def test_server_without_a_backup_has_no_drill(self, answer: tuple[str, list[str]]) -> None:
        self.protection.recovery = answer
        self.assertIn(answer[1][-1], self.refused('POST', _PATH, 409, _DRILL, code='no-backup'))
        self.assertEqual([], self.store.active())

    def test_there_is_no_drill_beside_a_recovery(self) -> None:
        other = db_base.make_recovery()
        self.store.create([other])
        self.assertIn(other.id,
                      self.refused('POST', _PATH, 409, _DRILL, code='recovery-active'))
        self.assertEqual([other.id], [recovery.id for recovery in self.store.active()])

    def test_there_is_one_drill_at_a_time(self) -> None:
        self.request('POST', _PATH, _DRILL, status=202)
        self.refused('POST', _PATH, 409, _DRILL, code='recovery-active')
        self.assertEqual([model.QUEUED], [recovery.state for recovery in self.store.active()])

    def test_projects_hold_no_drills(self) -> None:
        self.assertIn('server:drill', self.refused('POST', _PATH, 403, _DRILL,
                                                   caller=base.READER))

    def test_unknown_server_and_services_that_are_away(self) -> None:
        self.refused('POST', f'/v1/servers/{base.VOLUME}/action', 404, _DRILL)
        self.refused('POST', '/v1/servers/vm1/action', 404, _DRILL)
        self.protection.error = exception.Unreachable('Cinder is away')
        self.refused('POST', _PATH, 503, _DRILL)
