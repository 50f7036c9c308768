# SPDX-License-Identifier: Apache-2.0
"""Recoveries in the store: permitted changes, order and pages."""

import dataclasses
import threading
from unittest import mock

import ddt

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.store import samples
from specreds_nova.engine.store import store
from specreds_nova.tests.unit.engine.store import base


@ddt.ddt
class RecoveriesTest(base.StoreTest):

    def test_created_recovery_is_read_back(self) -> None:
        recovery = base.make_recovery(priority=3, expected=2.5)
        self.assertEqual({recovery.id}, self.store.create([recovery]))
        self.assertEqual(dataclasses.replace(recovery, created=1000.0, updated=1000.0),
                         self.store.get(recovery.id))

    def test_unknown_recovery_is_none(self) -> None:
        self.assertIsNone(self.store.get('no'))
        self.assertRaises(exception.Ended, self.store.take_over, base.make_recovery(), 'e1')
        self.assertFalse(self.store.request_abort('no', 'user u1'))

    def test_server_has_one_active_recovery(self) -> None:
        first = self.created()
        second = base.make_recovery(server=first.server)
        self.assertEqual(set(), self.store.create([second]))
        self.assertIsNone(self.store.get(second.id))
        self.end(first)
        self.assertEqual({second.id}, self.store.create([second]))
        self.assertEqual([second.id], [recovery.id for recovery in self.store.active()])

    def test_observed_recoveries_end_when_their_host_is_back(self) -> None:
        self.store.record({'node1': 'k1'})
        observed = [base.make_recovery(host=host, state=model.ENDED, outcome=model.OBSERVED)
                    for host in ('node1', 'node1', 'node2')]
        host = self.store.observe(self.store.host('node1'), observed)
        self.store.note_room(observed[0].id, 'node3', None)
        self.store.note_room(observed[1].id, None, 'no room')
        self.clock.time += 5.0
        self.assertIsNone(self.store.returned(dataclasses.replace(host, generation=1), held=()))
        self.assertIsNotNone(self.store.returned(host, held=()))
        self.clock.time += 5.0
        self.store.returned(self.store.host('node1'), held=())
        stored = [self.store.get(recovery.id) for recovery in observed]
        back = self.clock.time - 5.0
        self.assertEqual([('node3', None, back), (None, 'no room', back), (None, None, None)],
                         [(each.destination, each.error, each.ended) for each in stored])

    def test_observed_recovery_whose_host_never_returns_is_pruned(self) -> None:
        self.store.record({'node1': 'k1'})
        self.store.observe(self.store.host('node1'), [
            base.make_recovery(state=model.ENDED, outcome=model.OBSERVED)])
        self.assertEqual(0, self.store.prune(self.clock.time - 1.0))
        self.assertEqual(1, self.store.prune(self.clock.time + 1.0))

    def test_observed_recoveries_are_recorded_once_with_their_host(self) -> None:
        self.store.record({'node1': 'k1'})
        host = self.store.host('node1')
        observed = base.make_recovery(state=model.ENDED, outcome=model.OBSERVED, ended=1.0)
        changed = self.store.observe(host, [observed], held=('the mode',))
        self.assertEqual(('the mode',), changed and changed.held)
        self.assertIsNone(self.store.observe(
            host, [dataclasses.replace(observed, id='another')], held=()))
        self.assertEqual([observed.id], [recovery.id for recovery in self.store.recoveries({})])
        self.assertEqual(changed, self.store.host('node1'))

    def test_recovery_is_claimed_only_as_it_was_read(self) -> None:
        recovery = base.make_recovery()
        self.store.create([recovery])
        [first], [second] = self.store.free(()), self.store.free(())
        taken = self.store.take_over(first, 'engine1')
        self.assertEqual((1, 'engine1'), (taken.epoch, taken.engine))
        # A claim whose answer was lost is no claim: the engine reads the recovery again.
        for engine in ('engine1', 'engine2'):
            self.assertRaises(exception.Superseded, self.store.take_over, second, engine)
        self.assertEqual(2, self.store.take_over(taken, 'engine2').epoch)
        self.assertRaises(exception.Superseded, self.store.take_over, taken, 'engine3')
        self.assertRaises(exception.Superseded, self.store.change, taken, state=model.RACING)

    def test_recoveries_of_living_engines_are_not_free(self) -> None:
        wanted = [base.make_recovery(priority=3, expected=2.5), *(
            base.make_recovery(epoch=1, engine=f'e{number}') for number in range(1, 4))]
        ended = base.make_recovery()
        for recovery in (*wanted, ended):
            self.clock.time += 1.0
            self.store.create([recovery])
        self.end(self.taken_over(ended, 'e1'))
        for engine in ('e1', 'e2'):
            self.store.vote(model.Vote(engine))
        free = self.store.free({'e2'})
        # The engine of the last one has no row.
        self.assertEqual([wanted[place].id for place in (0, 2, 3)], [each.id for each in free])
        self.assertEqual([(3, 2.5, 'p1', 'node1', 0, None), (0, None, 'p1', 'node1', 1, 'e2')],
                         [(each.priority, each.expected, each.project, each.host, each.epoch,
                           each.engine) for each in free[:2]])
        self.assertEqual(4, len(self.store.free({'e1', 'e2'})))

    def test_creation_may_be_repeated(self) -> None:
        recovery = base.make_recovery()
        self.assertEqual({recovery.id}, self.store.create([recovery]))
        self.assertEqual({recovery.id}, self.store.create([recovery]))
        self.end(self.taken_over(recovery, 'engine1'))
        self.assertEqual(set(), self.store.create([recovery]))

    def test_several_recoveries_are_created_at_once(self) -> None:
        known, there = self.created(), base.make_recovery()
        self.store.create([there])
        new, other = base.make_recovery(), base.make_recovery(server=known.server)
        self.assertEqual({there.id, new.id}, self.store.create([other, there, new]))
        self.assertEqual({known.id, there.id, new.id},
                         {recovery.id for recovery in self.store.active()})
        self.assertEqual(set(), self.store.create([]))

    def test_recovery_cannot_be_created_ended(self) -> None:
        self.assertRaises(exception.Invalid, self.store.create,
                          [base.make_recovery(), base.make_recovery(state=model.ENDED)])
        self.assertEqual([], self.store.active())

    def test_change_sets_the_time_of_the_update(self) -> None:
        recovery = self.created()
        self.clock.time += 1
        changed = self.store.change(recovery, state=model.RACING, destination='node2',
                                    superposition='s1')
        self.assertEqual(
            dataclasses.replace(recovery, state=model.RACING, destination='node2',
                                superposition='s1', updated=1001.0), changed)
        self.assertEqual(changed, self.store.get(recovery.id))

    def test_change_of_an_older_reading_returns_what_is_stored(self) -> None:
        old = self.created()
        self.store.change(old, destination='node2', superposition='s1', state=model.RACING)
        changed = self.store.change(old, error='slow')
        self.assertEqual(('node2', 's1', model.RACING, 'slow'), (
            changed.destination, changed.superposition, changed.state, changed.error))
        self.assertEqual(changed, self.store.get(old.id))

    def test_superseded_engine_changes_nothing(self) -> None:
        former = self.created()
        attempt = self.begin_step(former, 'super')
        newer = self.taken_over(former, 'engine2')
        self.assertEqual((former.epoch + 1, 'engine2'), (newer.epoch, newer.engine))
        self.assertRaises(exception.Superseded, self.store.change, former, state=model.RACING)
        self.assertRaises(exception.Superseded, self.end, former)
        self.assertRaises(exception.Superseded, self.begin_step, former, 'super')
        self.assertRaises(exception.Superseded, self.end_step, former, 'super', attempt, {})
        stored = self.store.get(former.id)
        assert stored is not None
        self.assertEqual(newer, stored)
        self.assertIsNone(stored.steps[0].ended)

    def test_engine_whose_claim_the_database_has_lost_changes_nothing(self) -> None:
        # A replica that lacked the claim was promoted, and another engine has made the same one.
        stored = self.created()
        former = dataclasses.replace(stored, engine='engine2')
        self.assertRaises(exception.Superseded, self.store.change, former, state=model.RACING)
        self.assertRaises(exception.Superseded, self.store.refresh, former)
        self.assertRaises(exception.Superseded, self.end, former)
        self.assertRaises(exception.Superseded, self.begin_step, former, 'super')
        attempt = self.begin_step(stored, 'super')
        self.assertRaises(exception.Superseded, self.end_step, former, 'super', attempt, {})
        self.assertIsNone(self.store.get(stored.id).steps[0].ended)
        self.end(stored)
        self.assertRaises(exception.Superseded, self.end, former)

    def test_engine_may_supersede_itself(self) -> None:
        former = self.created()
        self.taken_over(former, 'engine1')
        self.assertRaises(exception.Superseded, self.store.change, former, state=model.RACING)

    def test_ended_recovery_is_not_active(self) -> None:
        recovery = self.created()
        self.clock.time += 7
        ended = self.end(recovery)
        self.assertEqual((model.ENDED, model.RECOVERED, 1007.0),
                         (ended.state, ended.outcome, ended.ended))
        self.assertEqual([], self.store.active())

    def test_ended_recovery_cannot_be_changed(self) -> None:
        recovery = self.created()
        ended = self.end(recovery)
        self.assertEqual(ended, self.end(recovery))
        self.assertRaises(exception.Ended, self.end, recovery, model.FAILED)
        self.assertRaises(exception.Ended, self.store.change, recovery, destination='node3')
        self.assertRaises(exception.Ended, self.begin_step, recovery, 'late')
        self.assertRaises(exception.Ended, self.taken_over, recovery, 'engine2')
        self.assertFalse(self.store.request_abort(recovery.id, 'user u1'))
        self.assertEqual(ended, self.store.get(recovery.id))

    @ddt.data({'state': model.QUEUED}, {'state': model.RACING},
              {'state': model.ENDED, 'outcome': model.PRIMARY},
              {'state': model.ENDED, 'outcome': model.ABORTED})
    def test_committed_recovery_cannot_go_back(self, values: dict[str, str]) -> None:
        recovery = self.created()
        for state in (model.COMMITTED, model.MERGING):
            reached = self.store.change(recovery, state=state)
            self.assertRaises(exception.Invalid, self.store.change, recovery, **values)
            self.assertEqual(reached, self.store.get(recovery.id))

    @ddt.data({'state': 'strange'}, {'colour': 'red'}, {'state': model.ENDED},
              {'outcome': model.PRIMARY}, {'state': model.ENDED, 'outcome': 'strange'},
              {'epoch': 7})
    def test_invalid_change_raises(self, values: dict[str, object]) -> None:
        self.assertRaises(exception.Invalid, self.store.change, self.created(), **values)

    def test_abort_is_requested_only_before_the_commit_point(self) -> None:
        recovery = self.created()
        self.assertTrue(self.store.request_abort(recovery.id, 'user u1'))
        self.assertTrue(self.store.request_abort(recovery.id, 'user u2'))
        stored = self.store.get(recovery.id)
        assert stored is not None
        self.assertEqual('user u1', stored.abort)
        self.store.change(recovery, state=model.COMMITTED)
        self.assertFalse(self.store.request_abort(recovery.id, 'user u1'))

    def test_active_recoveries_of_one_or_all_hosts(self) -> None:
        first = self.created(host='node1')
        self.clock.time += 1
        second = self.created(host='node2')
        self.assertEqual([first, second], self.store.active())
        self.assertEqual([second], self.store.active('node2'))

    def test_prune_deletes_only_old_ended_recoveries(self) -> None:
        old, young, running = self.created(), self.created(), self.created()
        self.begin_step(old, 'super')
        self.end(old)
        self.clock.time += 100
        self.end(young)
        self.assertEqual(1, self.store.prune(1050.0))
        self.assertEqual(0, self.store.prune(1050.0))
        self.assertIsNone(self.store.get(old.id))
        self.assertRaises(exception.Ended, self.store.change, old, destination='node2')
        self.assertIsNotNone(self.store.get(young.id))
        self.assertIsNotNone(self.store.get(running.id))


@ddt.ddt
class PagesTest(base.StoreTest):

    def setUp(self) -> None:
        super().setUp()
        self.recoveries = []
        for number in range(6):
            # Pairs of them have the same time.
            self.clock.time = 1000.1 + number // 2 / 3
            self.recoveries.append(self.created(host=f'node{number % 2}', project=f'p{number}'))
        self.end(self.recoveries[0], model.PRIMARY)
        self.order = [recovery.id for recovery in sorted(
            self.recoveries, key=lambda recovery: (recovery.created, recovery.id), reverse=True)]

    def test_newest_recovery_comes_first(self) -> None:
        self.assertEqual(self.order, [recovery.id for recovery in self.store.recoveries({})])

    @ddt.data(1, 2, 4, 6)
    def test_pages_are_complete_and_disjoint(self, limit: int) -> None:
        seen: list[str] = []
        marker = None
        while page := self.store.recoveries({}, limit, marker):
            self.assertLessEqual(len(page), limit)
            seen += [recovery.id for recovery in page]
            marker = seen[-1]
        self.assertEqual(self.order, seen)

    def test_filters_are_combined(self) -> None:
        first = self.recoveries[0]
        for filters in ({'server': first.server}, {'outcome': model.PRIMARY},
                        {'state': model.ENDED, 'host': 'node0'}, {'project': 'p0'}):
            self.assertEqual([first.id], [
                recovery.id for recovery in self.store.recoveries(filters)])
        self.assertEqual([], self.store.recoveries({'state': model.ENDED, 'host': 'node1'}))

    def test_invalid_query_raises(self) -> None:
        self.assertRaises(exception.Invalid, self.store.recoveries, {}, 1, 'no')
        self.assertRaises(exception.Invalid, self.store.recoveries, {'colour': 'red'})


class StepsTest(base.StoreTest):

    def test_repeated_change_records_a_step_once(self) -> None:
        recovery = self.created()
        step = model.Step('super', 1, 'engine1', 1000.0)
        for _ in range(2):
            self.assertEqual((step,), self.store.change(recovery, begun=[step]).steps)
        stored = self.store.get(recovery.id)
        assert stored is not None
        self.assertEqual((step,), stored.steps)

    def test_change_that_fails_records_no_step(self) -> None:
        recovery = self.created()
        self.begin_step(recovery, 'super')
        committed = self.store.change(recovery, state=model.COMMITTED)
        self.assertRaises(
            exception.Invalid, self.store.change, committed, state=model.RACING,
            begun=[model.Step('start', 1, 'engine1', 1000.0)],
            ended=[model.Step('super', 1, 'engine1', 1000.0, 1001.0)])
        stored = self.store.get(recovery.id)
        assert stored is not None
        self.assertEqual([('super', None)], [(step.name, step.ended) for step in stored.steps])

    def test_change_that_fails_keeps_no_other_one_from_being_made(self) -> None:
        lost, known, newer, begun = (self.created() for _ in range(4))
        self.taken_over(lost, 'engine2')
        self.begin_step(begun, 'race')
        self.store.change(newer, superposition='s1')
        step = model.Step('race', 1, 'engine1', 1.0)
        superseded, *changed = self.store.change_all([
            store.Change(recovery, [step], (), {'destination': 'node2'})
            for recovery in (lost, known, newer, begun)])
        self.assertIsInstance(superseded, exception.Superseded)
        self.assertEqual(['node2'] * 3, [recovery.destination for recovery in changed])
        self.assertEqual(('s1', 2), (changed[1].superposition, changed[2].steps[0].attempt))
        stored = self.store.get(lost.id)
        self.assertEqual((None, ()), (stored.destination, stored.steps))

    def test_invalid_change_keeps_no_other_one_from_being_made(self) -> None:
        first, second = self.created(), self.created()
        invalid, changed = self.store.change_all([
            store.Change(first, (), (), {'nonsense': 1}),
            store.Change(second, (), (), {'destination': 'node2'})])
        self.assertIsInstance(invalid, exception.Invalid)
        self.assertEqual('node2', changed.destination)

    def test_step_may_begin_and_end_at_once(self) -> None:
        recovery = self.created()
        step = model.Step('destination', 1, 'engine1', 1000.0, 1001.0, {'host': 'node2'})
        self.store.change(recovery, begun=[step])
        stored = self.store.get(recovery.id)
        assert stored is not None
        self.assertEqual((step,), stored.steps)

    def test_refresh_fails_for_an_engine_that_was_superseded(self) -> None:
        former = self.created()
        self.assertEqual(former, self.store.refresh(former))
        newer = self.taken_over(former, 'engine2')
        self.assertRaises(exception.Superseded, self.store.refresh, former)
        self.end(newer)
        self.assertRaises(exception.Ended, self.store.refresh, newer)
        self.assertRaises(exception.Ended, self.store.refresh, former)

    def test_racing_recoveries_that_others_have_changed_are_revoked(self) -> None:
        names = 'mine', 'aborted', 'taken', 'queued'
        made = {name: self.created(server=name) for name in names}
        for name in names[:3]:
            made[name] = self.store.change(made[name], state=model.RACING)
        for name in ('aborted', 'queued'):
            self.store.request_abort(made[name].id, 'user u1')
        self.taken_over(made['taken'], 'engine2')
        self.assertEqual({made['aborted'].id, made['taken'].id}, self.store.revoked('engine1'))

    def test_steps_are_in_order(self) -> None:
        recovery = self.created()
        self.assertEqual(1, self.begin_step(recovery, 'destination'))
        self.assertEqual(1, self.begin_step(recovery, 'super'))
        self.clock.time += 1
        self.end_step(recovery, 'super', 1, {'ms': 12})
        newer = self.taken_over(recovery, 'engine2')
        self.assertEqual(2, self.begin_step(newer, 'destination'))
        stored = self.store.get(recovery.id)
        assert stored is not None
        self.assertEqual((
            model.Step('destination', 1, 'engine1', 1000.0),
            model.Step('super', 1, 'engine1', 1000.0, 1001.0, {'ms': 12}),
            model.Step('destination', 2, 'engine2', 1001.0)), stored.steps)

    def test_first_end_of_a_step_counts(self) -> None:
        recovery = self.created()
        self.begin_step(recovery, 'super')
        self.end_step(recovery, 'super', 1, {'ms': 12})
        self.clock.time += 1
        self.end_step(recovery, 'super', 1, {'ms': 99})
        stored = self.store.get(recovery.id)
        assert stored is not None
        self.assertEqual((1000.0, {'ms': 12}), (stored.steps[0].ended, stored.steps[0].detail))

    def test_step_that_ends_a_recovery_is_ended(self) -> None:
        recovery = self.created()
        self.begin_step(recovery, 'merge')
        self.end(recovery)
        self.end_step(recovery, 'merge', 1, {})
        stored = self.store.get(recovery.id)
        assert stored is not None
        self.assertEqual(1000.0, stored.steps[0].ended)


class DurationsTest(base.StoreTest):

    def test_latest_durations_count_most(self) -> None:
        self.store.learn('vm1', 10.0)
        self.store.learn('vm2', 3.0)
        self.assertEqual({'vm1': 10.0}, self.store.expected(['vm1', 'vm9']))
        self.store.learn('vm1', 20.0)
        self.assertEqual({'vm1': 13.0, 'vm2': 3.0},
                         self.store.expected(iter(['vm1', 'vm2'])))
        for _ in range(30):
            self.store.learn('vm1', 5.0)
        self.assertAlmostEqual(5.0, self.store.expected(['vm1'])['vm1'], places=2)

    def test_durations_of_many_servers_are_read_at_once(self) -> None:
        self.store.learn('vm1199', 1.0)
        self.assertEqual({'vm1199': 1.0},
                         self.store.expected(f'vm{number}' for number in range(1200)))


class StatementsTest(base.StoreTest):
    """Statements that the database is spared."""

    def test_recoveries_are_changed_in_one_transaction(self) -> None:
        changes = [store.Change(self.created(), [model.Step('race', 1, 'engine1', 1.0)], (),
                                {'destination': f'node{number}'}) for number in (2, 3)]
        with self.statements() as executed:
            changed = self.store.change_all(changes)
        self.assertEqual(['UPDATE', 'UPDATE', 'INSERT'], executed)
        for change, recovery in zip(changes, changed, strict=True):
            self.assertEqual(self.store.get(change.recovery.id), recovery)

    def test_change_reads_only_what_another_one_has_changed(self) -> None:
        recovery = self.created()
        with self.statements() as executed:
            changed = self.store.change(recovery, state=model.RACING, why=({'kind': 'crash'},))
        self.assertEqual(['UPDATE'], executed)
        self.assertEqual(changed, self.store.get(recovery.id))
        self.store.request_abort(recovery.id, 'user u1')
        with self.statements() as executed:
            changed = self.store.change(changed, destination='node2')
        self.assertEqual(['UPDATE', 'UPDATE', 'SELECT'], executed)
        self.assertTrue(changed.abort)
        self.assertEqual(changed, self.store.get(recovery.id))

    def test_end_and_begin_of_steps_are_one_transaction(self) -> None:
        recovery = self.created()
        first, second = (model.Step(name, 1, 'engine1', 1000.0) for name in ('super', 'start'))
        self.store.change(recovery, begun=[first])
        with self.statements() as executed:
            changed = self.store.change(
                recovery, begun=[second], ended=[dataclasses.replace(first, ended=1001.0)],
                state=model.RACING, destination='node2')
        self.assertEqual(['UPDATE', 'UPDATE', 'INSERT'], executed)
        stored = self.store.get(recovery.id)
        assert stored is not None
        self.assertEqual((second,), changed.steps)
        self.assertEqual((dataclasses.replace(first, ended=1001.0), second), stored.steps)
        self.assertEqual(dataclasses.replace(changed, steps=stored.steps), stored)

    def test_begin_of_a_step_reads_what_others_have_changed(self) -> None:
        recovery = self.created()
        self.store.request_abort(recovery.id, 'user u1')
        step = model.Step('super', 1, 'engine1', 1000.0)
        self.assertTrue(self.store.change(recovery, begun=[step]).abort)
        with self.statements() as executed:
            self.store.change(dataclasses.replace(recovery, abort='user u1'), begun=[
                dataclasses.replace(step, attempt=2)])
        self.assertEqual(['UPDATE', 'INSERT'], executed)

    def test_refresh_reads_few_columns(self) -> None:
        recovery = self.created()
        self.store.request_abort(recovery.id, 'user u1')
        with self.statements() as executed:
            self.assertTrue(self.store.refresh(recovery).abort)
        self.assertEqual(['SELECT'], executed)

    def test_attempts_are_not_read_if_they_are_known(self) -> None:
        recovery = self.created()
        with self.statements() as executed:
            self.assertEqual(1, self.begin_step(recovery, 'super'))
        self.assertEqual(['UPDATE', 'INSERT'], executed)
        stored = self.store.get(recovery.id)
        assert stored is not None
        with self.statements() as executed:
            self.assertEqual(2, self.begin_step(stored, 'super'))
        self.assertEqual(['UPDATE', 'INSERT'], executed)
        self.clock.time += 1
        self.assertEqual(3, self.begin_step(recovery, 'super'))
        stored = self.store.get(recovery.id)
        assert stored is not None
        self.assertEqual([1, 2, 3], [step.attempt for step in stored.steps])

    def test_samples_of_a_kind_are_written_together(self) -> None:
        # Written by this test only.
        self.patch(samples, '_PAUSE', 3600.0)
        for _ in range(2):
            with self.statements() as executed:
                for seconds in (10.0, 20.0, 5.0):
                    self.store.learn('kind', seconds)
                    self.store.learn(f'vm{seconds}', seconds)
            self.assertEqual([], executed)
            with self.statements() as executed:
                self.store.flush()
                self.store.flush()
            self.assertLessEqual(len(executed), 2)
        mean = 10.0
        for seconds in (20.0, 5.0, 10.0, 20.0, 5.0):
            mean += 0.3 * (seconds - mean)
        learned = self.store.expected(['kind', 'vm5.0'])
        self.assertAlmostEqual(mean, learned['kind'])
        self.assertAlmostEqual(5.0, learned['vm5.0'])

    def test_samples_are_written_without_a_further_call(self) -> None:
        with mock.patch.object(threading, 'Timer') as timer:
            self.store.learn('vm1', 10.0)
            self.store.learn('vm1', 20.0)
            timer.assert_called_once_with(samples._PAUSE, mock.ANY)
            with self.statements() as executed:
                timer.call_args.args[1]()
            self.assertEqual(['SELECT', 'INSERT'], executed)
            self.store.learn('vm1', 20.0)
            self.assertEqual(2, timer.call_count)
