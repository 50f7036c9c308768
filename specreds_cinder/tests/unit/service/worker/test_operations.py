# SPDX-License-Identifier: Apache-2.0
"""What another service does to a superposition while a worker works on it."""

import builtins
import datetime
from typing import Any
from unittest import mock

import fixtures
import testtools

from specreds_cinder import superposition as sp
from specreds_cinder.service.worker import operations
from specreds_cinder.superposition import errors
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.unit import fakes

_CLEAN = sp.SweepReport(False, None, 0, 0.0)


class OperationsTest(testtools.TestCase):
    """A worker whose superposition is what a test says.

    :ivar record: the superposition; None if there is none
    """

    def setUp(self) -> None:
        super().setUp()
        self.record: sp.Record | None = fakes.superposition()
        self.protocol: Any = mock.Mock(**{
            'show.side_effect': self.read, 'store.read.side_effect': self.read,
            'reload.side_effect': lambda record: self.read(record.id, record.home),
            'list.side_effect': self.list,
            'counting.side_effect': lambda record: record,
            'label.side_effect': self.label, 'watch.side_effect': self.watch,
            'ledger.read.return_value': {}})
        self.unreadable: dict[str, sp.ClusterError] = {}
        self.sweeps: builtins.list[mock.Mock] = []
        self.threads = self.useFixture(fixtures.MockPatch('threading.Thread')).mock
        self.operations = operations.Operations(self.protocol, sp.Home('volumes'), watching=True)

    def read(self, superposition: str, _home: sp.Home) -> sp.Record:
        """Return the superposition."""
        if self.record is None:
            raise sp.NotSuperposed(f'there is no superposition {superposition}')
        return self.record

    def list(self, _home: sp.Home, unreadable: dict[str, sp.ClusterError] | None = None
             ) -> builtins.list[sp.Record]:
        """List the superposition."""
        if unreadable is not None:
            unreadable |= self.unreadable
        return [self.record] if self.record else []

    def label(self, record: sp.Record, **labels: Any) -> sp.Record:
        """Set labels."""
        self.change(labels={**record.labels, **labels})
        return self.read(record.id, record.home)

    def change(self, **values: Any) -> None:
        """Change the superposition."""
        self.record = fakes.superposition(**values)

    def watch(self, _record: sp.Record, on_dirty: Any) -> mock.Mock:
        """Return a background sweep."""
        self.sweeps.append(mock.Mock(spec=['start', 'stop'], on_dirty=on_dirty))
        return self.sweeps[-1]

    def watched(self) -> builtins.list[bool]:
        """Return for each background sweep whether it goes on."""
        return [not sweep.stop.called for sweep in self.sweeps]

    def call(self, method: str, **arguments: Any) -> Any:
        """Call a method on the superposition, and return its result."""
        answer, result = self.operations.call(
            method, {'superposition': fakes.superposition().id, **arguments}, {})
        self.assertEqual(operations.OK, answer, result)
        return result

    def look_after(self) -> builtins.list[bool]:
        """Look after the superposition once, and return which sweeps go on."""
        self.call('look_after')
        return self.watched()

    def test_pool_that_does_not_answer_keeps_no_other_from_being_tidied(self) -> None:
        homes = [sp.Home('volumes'), sp.Home('vms')]
        tidied: builtins.list[sp.Home] = []

        def tidy(home: sp.Home) -> None:
            tidied.append(home)
            if home == homes[0]:
                raise sp.ClusterTimeout('no answer')
        self.patch(self.operations, '_homes', homes)
        self.patch(self.operations, '_protocol', mock.Mock(tidy=tidy))
        answer, error = self.operations.call('tidy', {}, {})
        self.assertEqual((operations.ERROR, 'ClusterTimeout'), (answer, error['type']))
        self.assertEqual(homes, tidied)

    def test_superposition_that_another_service_has_decided_meanwhile_is_not_watched(self) -> None:
        self.assertEqual([True], self.look_after())
        self.change(state=states.PROMOTED, outcome=states.PROMOTED)
        self.assertEqual([False], self.look_after())

    def test_superposition_that_another_service_has_ended_meanwhile_is_not_watched(self) -> None:
        self.look_after()
        self.record = None
        self.operations.call('list', {}, {})
        self.assertEqual([False], self.watched())

    def test_superposition_that_cannot_be_read_is_listed_as_unknown_and_stays_watched(
            self) -> None:
        self.look_after()
        watched = fakes.superposition().id
        self.record = None
        self.unreadable = {watched: errors.UnreadableObject('it is torn')}
        [listed] = self.operations.call('list', {}, {})[1]
        self.assertEqual((watched, 'unknown', []),
                         (listed['id'], listed['state'], listed['volumes']))
        self.assertEqual([True], self.watched())
        answer, error = self.operations.call('list', {'whole': True}, {})
        self.assertEqual((operations.ERROR, 'UnreadableObject'), (answer, error['type']))

    def test_superposition_that_is_created_while_all_are_listed_meanwhile_is_watched(self) -> None:
        created, self.record = self.record, None

        def listed(_home: sp.Home, *_: Any) -> builtins.list[sp.Record]:
            # The superposition is created after the list was read.
            self.record = created
            self.call('look_after')
            return []
        self.protocol.list.side_effect = listed
        self.operations.call('list', {}, {})
        self.assertEqual([True], self.watched())

    def test_superposition_that_is_found_to_be_gone_meanwhile_is_not_watched(self) -> None:
        self.look_after()
        self.record = None
        self.operations.call('check', {'superposition': fakes.superposition().id}, {})
        self.assertEqual([False], self.watched())

    def test_decision_is_not_slowed_by_a_sweep_meanwhile(self) -> None:
        for method, arguments in (('collapse', {'durable': False}), ('drop', {})):
            self.look_after()
            during: list[bool] = []

            def decide(*_args: object, during: list[bool] = during, **_options: object) -> Any:
                during += self.watched()[-1:]
                return sp.CollapseReport(states.PROMOTED, _CLEAN)
            self.protocol.collapse.side_effect = self.protocol.abort.side_effect = decide
            self.call(method, **arguments)
            self.assertEqual([False], during, method)

    def test_decision_that_another_worker_has_begun_meanwhile_is_resumed(self) -> None:
        self.protocol.resume.return_value = states.PROMOTED
        self.change(state=states.COLLAPSING)
        self.assertEqual(states.PROMOTED, self.call('collapse', durable=False)['outcome'])
        self.protocol.collapse.assert_not_called()

    def test_durable_backup_is_recorded_before_a_decision_that_a_crash_may_end_meanwhile(
            self) -> None:
        recorded: list[object] = []

        def decide(record: sp.Record, *, durable: bool) -> sp.CollapseReport:
            recorded.append(record.labels.get(records.DURABLE))
            self.assertTrue(durable)
            return sp.CollapseReport(states.PROMOTED, _CLEAN)
        self.protocol.collapse.side_effect = decide
        self.call('collapse', durable=True)
        # A worker that goes on without the caller knows of it.
        self.call('collapse', durable=False)
        self.assertEqual([True, True], recorded)
        self.protocol.label.assert_called_once()
        self.call('resume')
        self.assertTrue(self.protocol.resume.call_args.kwargs['durable'])

    def test_clients_are_looked_at_before_another_one_may_come_meanwhile(self) -> None:
        self.change(state=states.PROMOTED, outcome=states.PROMOTED)
        self.call('hand_out')
        names = [name for name, _args, _options in self.protocol.mock_calls
                 if name in ('observe', 'label')]
        self.assertEqual(['observe', 'label'], names)

    def hand_out(self, seconds: float) -> bool:
        """Have a worker look after a hand-out of some seconds ago; return whether it looks."""
        moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
        self.change(state=states.PROMOTED, outcome=states.PROMOTED,
                    labels={'handed_at': moment.isoformat()})
        self.threads.reset_mock()
        self.call('look_after')
        return bool(self.threads.called)

    def test_hand_out_of_a_worker_that_has_died_meanwhile_is_looked_for(self) -> None:
        self.assertTrue(self.hand_out(100.0))
        self.assertFalse(self.hand_out(200.0))

    def test_fence_is_renewed_at_each_look(self) -> None:
        self.call('look_after')
        self.protocol.renew.assert_called_once()
