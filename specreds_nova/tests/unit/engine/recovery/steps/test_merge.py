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
        self.volumes.state.return_value = 'promoted'
        self.looks = 0
        self.volumes.written.side_effect = self.written
        self.compute.server.return_value = base.make_server('a', host='h2')

    def written(self, _superposition: str) -> int:
        """Return what was written, until the superposition is gone."""
        self.looks += 1
        if self.looks > 10:
            raise exception.NotFound('it is merged')
        return 1

    def merge(self) -> tuple[int, mock.Mock]:
        """Take the step; return the number of looks, and the stand-in for evacuations."""
        recovery = self.make_recovery('a', state=model.MERGING, destination='h2',
                                      superposition='s1')
        with mock.patch.object(evacuation, 'evacuate', return_value=None) as evacuate:
            self.assertEqual(_ADOPTED, merge.merge(runs.Run(self.context, recovery), _ADOPTED))
        return self.looks, evacuate

    def test_recovery_makes_way_for_that_of_the_new_host(self) -> None:
        looks, evacuate = self.merge()
        self.assertEqual(1, looks)
        evacuate.assert_not_called()

    @ddt.data('merging', 'merged')
    def test_server_whose_merge_has_begun_is_evacuated(self, state: str) -> None:
        self.volumes.state.return_value = state
        self.context = self.make_context(evacuate_after=5.0)
        looks, evacuate = self.merge()
        self.assertEqual(11, looks)
        evacuate.assert_called()

    def test_merge_that_ends_in_time_leaves_the_server_to_the_recovery_of_its_new_host(
            self) -> None:
        self.volumes.state.return_value = 'merging'
        looks, evacuate = self.merge()
        self.assertEqual(11, looks)
        evacuate.assert_not_called()

    @ddt.data({'host': 'h3'}, {'host': 'h2', 'task': 'rebuilding'})
    def test_recovery_does_not_make_way_for_a_server_that_moves(self, values: dict[str, Any]
                                                                ) -> None:
        self.compute.server.return_value = base.make_server('a', **values)
        self.assertEqual(11, self.merge()[0])

    @ddt.data({'status': 'SHUTOFF'}, {'status': 'PAUSED'}, {'status': 'ERROR'},
              {'metadata': {'specreds:protect': 'false'}}, {'locked': True})
    def test_server_that_may_have_no_other_backup_is_evacuated(self, values: dict[str, Any]
                                                               ) -> None:
        self.compute.server.return_value = base.make_server('a', host='h2', **values)
        self.context = self.make_context(evacuate_after=5.0, protect_locked_servers=False)
        looks, evacuate = self.merge()
        self.assertEqual(11, looks)
        evacuate.assert_called()

    def test_recovery_makes_way_for_a_paused_server_that_is_protected(self) -> None:
        self.compute.server.return_value = base.make_server('a', host='h2', status='PAUSED')
        self.context = self.make_context(protect_states=['active', 'paused'])
        self.assertEqual(1, self.merge()[0])

    def test_recovery_does_not_make_way_while_the_new_host_is_well(self) -> None:
        self.suspects.suspected.return_value = False
        self.assertEqual(11, self.merge()[0])
        self.volumes.state.assert_not_called()

    def test_recovery_does_not_make_way_while_a_gate_is_shut(self) -> None:
        host = self.store.host('h2')
        self.store.change_host(host, state=model.TRUSTED)
        self.assertEqual(11, self.merge()[0])
