# SPDX-License-Identifier: Apache-2.0
"""Volumes whose promoted version is not merged are superposed again, or not."""

from typing import Any
from unittest import mock

import ddt

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import super as super_step
from specreds_nova.tests.unit.engine.recovery import base


@ddt.ddt
class AgainTest(base.RecoveryTest):
    """A recovery has promoted a backup on h2, and now h2 has failed."""

    def setUp(self) -> None:
        super().setUp()
        self.first = self.make_recovery('a', state=model.MERGING, destination='h2')
        self.end(outcome=model.RECOVERED)
        self.suspect('h2')
        self.refusals: list[Exception] = [exception.Merging('s1 is promoted', self.first.id)]
        self.volumes.superpose.side_effect = self.superposed

    def end(self, **values: Any) -> None:
        """End the first recovery."""
        ended = self.store.change(self.first, state=model.ENDED, **values)
        assert ended is not None

    def superposed(self, *_arguments: Any, **_more: Any) -> str:
        """Return a superposition, or raise the next error."""
        if self.refusals:
            raise self.refusals.pop(0)
        return 's2'

    def superpose(self, server_host: str = 'h2') -> verdicts.StepVerdict:
        """Take the step in the recovery of h2."""
        self.compute.server.return_value = base.make_server('a', host=server_host)
        return super_step.superpose(runs.Run(self.context, self.make_recovery('a', host='h2')))

    def again(self) -> list[bool]:
        """Return for each request whether it was for a version that is not merged."""
        return [call.kwargs.get('again', False) for call in self.volumes.superpose.call_args_list]

    def test_version_of_the_backup_on_the_failed_host_is_superposed_again(self) -> None:
        self.assertEqual(verdicts.StepVerdict(verdicts.STARTED, 's2'), self.superpose())
        self.assertEqual([False, True], self.again())

    def test_recovery_waits_for_the_merge_if_cinder_refuses(self) -> None:
        self.refusals.append(exception.Merging('it is encrypted'))
        verdict = self.superpose()
        self.assertEqual((verdicts.MERGING, 'it is encrypted'), verdict)
        self.assertEqual([False, True], self.again())

    def test_request_is_repeated_once_if_the_version_is_as_it_was(self) -> None:
        self.refusals.append(exception.Merging('it was changed meanwhile', self.first.id))
        self.assertEqual('s2', self.superpose().why)
        self.assertEqual([False, True, True], self.again())

    def test_recovery_waits_for_the_merge_after_two_refusals(self) -> None:
        self.refusals += [exception.Merging('it is encrypted', self.first.id)] * 2
        self.assertEqual((verdicts.MERGING, 'it is encrypted'), self.superpose())
        self.assertEqual([False, True, True], self.again())

    def test_request_is_repeated_while_cinder_is_silent(self) -> None:
        self.suspects.heard_after.return_value = False
        self.refusals.append(exception.Unreachable('no answer'))
        self.assertEqual('s2', self.superpose().why)
        self.assertEqual([False, True, True], self.again())

    def test_merge_that_has_begun_is_waited_for(self) -> None:
        self.refusals = [exception.Merging('s1 is merging')]
        self.assertEqual(verdicts.MERGING, self.superpose().kind)
        self.assertEqual([False], self.again())

    def test_backup_that_may_serve_elsewhere_is_not_superposed_again(self) -> None:
        # The server has moved since: its backup is not what runs on the failed host.
        self.assertEqual(verdicts.MERGING, self.superpose('h3').kind)
        self.assertEqual([False], self.again())

    @ddt.data({'outcome': model.EVACUATED}, {'outcome': model.FAILED},
              {'outcome': model.RECOVERED, 'destination': 'h3'})
    def test_version_of_a_backup_that_was_not_adopted_there_is_not_superposed_again(
            self, values: dict[str, Any]) -> None:
        kept = {name: getattr(self.first, name) for name in ('server', 'id')}
        with mock.patch.object(self.store, 'get', return_value=mock.Mock(
                **{**kept, 'destination': 'h2', 'superposition': None, **values})):
            self.assertEqual(verdicts.MERGING, self.superpose().kind)
        self.assertEqual([False], self.again())

    def test_version_of_no_known_recovery_is_not_superposed_again(self) -> None:
        self.refusals = [exception.Merging('s1 is promoted', 'unknown')]
        self.assertEqual(verdicts.MERGING, self.superpose().kind)
        self.assertEqual([False], self.again())
