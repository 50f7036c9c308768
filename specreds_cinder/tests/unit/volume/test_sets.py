# SPDX-License-Identifier: Apache-2.0
"""Sets on several back ends are decided alike on all of them, wherever a service is cut off."""

from typing import Any

import ddt

from specreds_cinder import exception
from specreds_cinder.tests.unit import backends
from specreds_cinder.tests.unit.volume import base

LEAD, FIRST, SECOND = 'node@rbd', 'node@rbd2', 'node2@rbd3'
_AWAY = exception.SuperpositionUnavailable('no answer')


class SetTestCase(base.ServiceTestCase):

    hosts = (LEAD, FIRST, SECOND)

    def states(self) -> list[str | None]:
        """Return the state on each back end, None where there is no record."""
        return [self.back.workers[host].records.get('s1', {}).get('state')
                for host in self.hosts]

    def outlast(self) -> None:
        """Let enough time pass for each step to count as cut off."""
        for worker in self.back.workers.values():
            for record in worker.records.values():
                record['unchanged_seconds'] = 1e6

    def look_after(self, *hosts: str) -> None:
        """Run the periodic task of services, and wait for their merges."""
        self.outlast()
        for host in hosts:
            self.back.services[host].look_after()
            self.merged(self.back.services[host])

    def collapse(self, durable: bool = False) -> Any:
        """Collapse for the backup."""
        return self.service.promote(self.context, 's1', durable)


@ddt.ddt
class CreateSetTest(SetTestCase):

    def test_set_is_created_on_all_back_ends(self) -> None:
        view = self.create()
        self.assertEqual(['superposed'] * 3, self.states())
        self.assertEqual(['vol-1', 'vol-2', 'vol-3'], [each['id'] for each in view['volumes']])
        self.assertEqual(([LEAD, FIRST, SECOND], LEAD, None),
                         (view['members'], view['lead'], view['overlay_bytes']))
        self.assertEqual({'vol-1': 's1', 'vol-2': 's1', 'vol-3': 's1'}, self.back.notes)
        for worker in self.back.workers.values():
            self.assertTrue(worker.records['s1']['joint'])
            self.assertEqual([LEAD, FIRST, SECOND], worker.records['s1']['labels']['members'])
        self.assertEqual(['create.start', 'create.end'], self.back.events())

    def test_back_end_may_have_several_volumes_of_a_set(self) -> None:
        self.create(*(self.back.add_volume(host) for host in (LEAD, FIRST, LEAD)))
        self.assertEqual(['superposed', 'superposed', None], self.states())
        self.assertEqual({'volume-vol-1': 'vol-1', 'volume-vol-3': 'vol-3'},
                         self.worker.records['s1']['labels']['volumes'])

    def test_set_over_several_ceph_clusters_is_refused_and_changes_nothing(self) -> None:
        self.back.drivers[SECOND].location = ('far', SECOND)
        error = self.assertRaises(exception.VolumesNotEligible, self.create)
        self.assertIn(f'back end {SECOND} is in another Ceph cluster than {LEAD}', error.msg)
        self.assertEqual(1, len(error.reasons))
        self.assertEqual([None] * 3, self.states())
        self.assertEqual([[], [], []], [self.back.workers[host].calls for host in self.hosts])
        self.assertEqual({}, self.back.notes)
        self.assertEqual(['create.start', 'create.error'], self.back.events())

    @ddt.data(LEAD, FIRST, SECOND)
    def test_refusal_of_one_back_end_removes_all(self, host: str) -> None:
        self.back.workers[host].fail['super'] = exception.VolumesNotEligible(
            'no', reasons=('no object map',))
        error = self.assertRaises(exception.VolumesNotEligible, self.create)
        self.assertEqual(('no object map',), error.reasons)
        self.assertEqual([None] * 3, self.states())
        self.assertEqual({}, self.back.notes)
        self.assertEqual(['create.start', 'create.error'], self.back.events())

    def test_unreachable_back_end_removes_all(self) -> None:
        self.back.away.add(SECOND)
        self.assertRaises(exception.SuperpositionUnavailable, self.create)
        self.assertEqual([None] * 3, self.states())

    def test_back_end_that_missed_the_failure_asks_the_leader(self) -> None:
        def cut_off() -> None:
            self.back.away.add(SECOND)
        # Its answer is lost, and so is the next message to it.
        self.back.workers[SECOND].hooks['super'] = cut_off
        self.worker.fail['super'] = exception.VolumesNotEligible('no')
        self.assertRaises(exception.VolumesNotEligible, self.create)
        self.assertEqual([None, None, 'superposed'], self.states())
        # It asks the leader; no record there means that the creation failed.
        self.back.away.clear()
        self.look_after(SECOND)
        self.assertEqual([None] * 3, self.states())
        self.assertEqual({}, self.back.notes)


@ddt.ddt
class CollapseSetTest(SetTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.create()
        self.back.emitted.clear()
        self.back.order.clear()

    def worker_of(self, host: str) -> backends.Worker:
        """Forget the calls of a worker, and return it."""
        self.back.workers[host].calls.clear()
        return self.back.workers[host]

    @ddt.data(True, False)
    def test_collapse_promotes_on_all_back_ends(self, durable: bool) -> None:
        report = self.collapse(durable)
        self.assertEqual('promoted', report['outcome'])
        self.assertEqual((0.5, 1.0, 0.125), tuple(
            report['durations'][step] for step in ('sweep1', 'fence', 'sweep2')))
        self.assertEqual(['promoted'] * 3, self.states())
        self.assertEqual([(LEAD, 'commit'), (FIRST, 'commit'), (SECOND, 'commit')],
                         self.back.order)
        for worker in self.back.workers.values():
            self.assertEqual(durable, dict(worker.calls)['prepare']['durable'])
            self.assertNotIn('collapse', worker.methods())
        self.assertEqual(3, len(self.back.notes))
        self.assertEqual(['collapse.start', 'collapse.end'], self.back.events())

    def test_all_are_prepared_before_the_first_commit(self) -> None:
        def look() -> None:
            self.assertEqual(['collapsing'] * 3, self.states())
        self.worker.hooks['commit'] = look
        self.collapse()
        self.assertIn('commit', self.worker.methods())

    @ddt.data(*((host, *report) for host in (LEAD, FIRST, SECOND) for report in (
        (backends.DIRTY, 'dirty'), (backends.UNPROVEN, 'unproven'))))
    @ddt.unpack
    def test_one_back_end_that_is_not_clean_aborts_all_without_a_fence(
            self, host: str, report: dict[str, Any], outcome: str) -> None:
        self.back.workers[host].report = report
        self.assertEqual(outcome, self.collapse()['outcome'])
        self.assertEqual([None] * 3, self.states())
        # No client was fenced.
        self.assertEqual({'drop False'}, {what for _, what in self.back.order})
        self.assertNotIn('prepare', self.worker.methods())
        self.assertEqual({}, self.back.notes)

    @ddt.data(LEAD, FIRST, SECOND)
    def test_one_late_dirty_back_end_aborts_all(self, host: str) -> None:
        self.back.workers[host].prepared = 'late-dirty'
        self.assertEqual('late-dirty', self.collapse()['outcome'])
        self.assertEqual([None] * 3, self.states())
        self.assertEqual([(each, 'drop True') for each in self.hosts], self.back.order)
        self.assertEqual({}, self.back.notes)
        self.assertEqual('late-dirty', self.back.emitted[-1][1]['outcome'])

    @ddt.data(LEAD, FIRST, SECOND)
    def test_failed_preparation_decides_nothing(self, host: str) -> None:
        self.back.workers[host].fail['prepare'] = exception.SuperpositionConflict('it is open')
        self.assertRaises(exception.SuperpositionConflict, self.collapse)
        # Nothing is decided, and it may be collapsed again.
        self.assertEqual([], self.back.order)
        del self.back.workers[host].fail['prepare']
        self.assertEqual('promoted', self.collapse()['outcome'])

    def test_followers_wait_for_the_commit_of_the_leader(self) -> None:
        self.worker.fail['commit'] = _AWAY
        self.assertRaises(exception.SuperpositionUnavailable, self.collapse)
        self.look_after(FIRST, SECOND)
        # The leader has not decided, so the followers wait for it.
        self.assertEqual(['collapsing'] * 3, self.states())
        del self.worker.fail['commit']
        self.look_after(LEAD)
        self.assertEqual(['promoted'] * 3, self.states())

    @ddt.data(FIRST, SECOND)
    def test_interrupted_follower_commits_after_the_leader(self, host: str) -> None:
        self.back.workers[host].fail['commit'] = _AWAY
        self.assertEqual('promoted', self.collapse()['outcome'])
        self.assertEqual('collapsing', self.states()[self.hosts.index(host)])
        del self.back.workers[host].fail['commit']
        self.look_after(host)
        self.assertEqual('promoted', self.states()[self.hosts.index(host)])

    def test_record_of_the_leader_outlives_the_commits_of_followers(self) -> None:
        self.back.workers[SECOND].fail['commit'] = _AWAY
        self.collapse()
        self.look_after(LEAD)
        self.assertEqual(['promoted', 'promoted', 'collapsing'], self.states())
        del self.back.workers[SECOND].fail['commit']
        self.look_after(LEAD)
        self.assertEqual([None, 'promoted', 'promoted'], self.states())
        self.look_after(FIRST, SECOND)
        self.assertEqual([None] * 3, self.states())
        self.assertEqual({}, self.back.notes)
        self.assertEqual(3, self.back.events().count('merge.end'))

    def test_abort_before_the_commit_of_the_leader_aborts_all(self) -> None:
        def abort() -> None:
            del self.worker.hooks['commit']
            del self.worker.records['s1']
        self.worker.hooks['commit'] = abort
        self.assertRaises(exception.SuperpositionNotFound, self.collapse)
        # Followers may not decide before the leader.
        self.assertEqual([None, 'collapsing', 'collapsing'], self.states())
        self.look_after(FIRST, SECOND)
        self.assertEqual([None] * 3, self.states())

    @ddt.data(FIRST, SECOND)
    def test_interrupted_follower_ends_a_late_dirty_set(self, host: str) -> None:
        self.back.workers[FIRST].prepared = 'late-dirty'
        self.back.workers[host].fail['drop'] = _AWAY
        self.assertEqual('late-dirty', self.collapse()['outcome'])
        self.assertEqual('collapsing', self.states()[self.hosts.index(host)])
        del self.back.workers[host].fail['drop']
        self.look_after(host)
        self.assertEqual([None] * 3, self.states())
        self.assertIn((host, 'drop True'), self.back.order)

    def test_late_dirty_set_stays_until_the_leader_drops_it(self) -> None:
        self.back.workers[FIRST].prepared = 'late-dirty'
        self.worker.fail['drop'] = _AWAY
        self.assertRaises(exception.SuperpositionUnavailable, self.collapse)
        self.assertEqual(['collapsing'] * 3, self.states())
        self.assertEqual(3, len(self.back.notes))
        del self.worker.fail['drop']
        self.look_after(LEAD)
        self.assertEqual([None] * 3, self.states())
        self.assertEqual({}, self.back.notes)

    @ddt.data(('superposed', 'unproven'), ('collapsing', 'late-dirty'))
    @ddt.unpack
    def test_missing_record_of_one_back_end_proves_nothing(self, state: str, outcome: str) -> None:
        for host in (LEAD, SECOND):
            self.back.workers[host].records['s1']['state'] = state
        del self.back.workers[FIRST].records['s1']
        self.assertEqual(outcome, self.collapse()['outcome'])
        self.assertEqual([None] * 3, self.states())
        self.assertEqual({}, self.back.notes)

    def test_dirty_after_an_interruption_is_late_dirty(self) -> None:
        self.worker.fail['commit'] = _AWAY
        self.assertRaises(exception.SuperpositionUnavailable, self.collapse)
        self.back.workers[FIRST].report = backends.DIRTY
        self.look_after(LEAD)
        # The primary is fenced, so it must be started again.
        self.assertEqual('late-dirty', self.back.emitted[-1][1]['outcome'])
        self.assertEqual({'drop True'}, {what for _, what in self.back.order})

    def test_abort_drops_the_leader_first(self) -> None:
        self.service.abort(self.context, 's1')
        self.assertEqual([(host, 'drop False') for host in self.hosts], self.back.order)
        self.assertEqual(({}, [None] * 3), (self.back.notes, self.states()))

    def test_abort_reaches_an_unreachable_back_end_later(self) -> None:
        self.back.away.add(FIRST)
        self.service.abort(self.context, 's1')
        self.assertEqual([None, 'superposed', None], self.states())
        self.back.away.clear()
        self.look_after(FIRST)
        self.assertEqual(({}, [None] * 3), (self.back.notes, self.states()))

    def test_abort_that_fails_on_the_leader_changes_nothing(self) -> None:
        self.worker.fail['drop'] = _AWAY
        self.assertRaises(exception.SuperpositionUnavailable, self.service.abort, self.context,
                          's1')
        self.assertEqual(['superposed'] * 3, self.states())


class FollowTest(SetTestCase):
    """A back end that is not the leader of a set."""

    def setUp(self) -> None:
        super().setUp()
        self.create()
        self.follower = self.back.services[FIRST]
        self.followers = self.back.workers[FIRST]

    def test_undecided_set_is_left_alone(self) -> None:
        self.look_after(FIRST)
        self.assertEqual(['superposed'] * 3, self.states())
        # It is watched like any other one.
        self.assertIn('look_after', self.followers.methods())

    def test_follower_asks_the_leader_after_a_delay(self) -> None:
        del self.worker.records['s1']
        self.follower.look_after()
        self.assertEqual('superposed', self.states()[1])
        self.follower.look_after(cut_off=True)
        self.assertIsNone(self.states()[1])

    def test_follower_keeps_the_set_while_the_leader_is_away(self) -> None:
        del self.worker.records['s1']
        self.back.away.add(LEAD)
        self.look_after(FIRST)
        self.assertEqual('superposed', self.states()[1])

    def test_follower_keeps_the_set_while_the_leader_aborts(self) -> None:
        self.worker.records['s1']['state'] = 'aborting'
        self.look_after(FIRST)
        self.assertEqual('superposed', self.states()[1])

    def test_commit_of_a_merged_set_changes_nothing(self) -> None:
        for worker in self.back.workers.values():
            worker.records['s1'].update(state='promoted')
        self.followers.records.clear()
        # It is merged and gone here when the leader commits once more.
        self.follower.commit(self.context, 's1')
        self.look_after(LEAD)
        self.assertIsNone(self.states()[0])
