# SPDX-License-Identifier: Apache-2.0
"""Slots and room for recoveries, and the choice of a backup's host."""

from unittest import mock

from specreds_nova.engine import model
from specreds_nova.engine.placing import capacity
from specreds_nova.engine.suspicion import servers
from specreds_nova.tests.unit.engine.recovery import base


class ChoicesTest(base.RecoveryTest):
    """Backups are spread over the hosts, up to the limit of each."""

    def test_host_with_the_fewest_backups_comes_first(self) -> None:
        choices = self.context.capacity
        chosen = [choices.choose(str(number), ['h2', 'h3', 'h4']) for number in range(6)]
        self.assertEqual(['h2', 'h3', 'h4', 'h2', 'h3', 'h4'], chosen)

    def test_backups_of_other_engines_count(self) -> None:
        self.make_recovery('x', state=model.RACING, destination='h2')
        self.assertEqual('h3', self.context.capacity.choose('mine', ['h2', 'h3']))

    def test_members_of_a_group_are_found(self) -> None:
        self.make_recovery('b', state=model.RACING, destination='h2')
        self.make_recovery('x', state=model.RACING, destination='h2')
        self.make_recovery('c', state=model.QUEUED)
        server = base.make_server('a', group={'id': 'g', 'members': ['a', 'b', 'c', 'd']})
        limits = self.context.capacity
        self.assertEqual({'b': 'h2'}, limits.placed(server))
        self.assertEqual({}, limits.placed(base.make_server('a')))

    def test_choice_for_another_state_of_the_group_is_refused(self) -> None:
        limits, group = self.context.capacity, {'id': 'g', 'members': ['a', 'b']}
        first, second = (base.make_server(name, group=group) for name in 'ab')
        self.assertEqual('h2', limits.choose('1', ['h2'], (), first, {}))
        self.assertRaises(capacity.Outdated, limits.choose, '2', ['h2'], (), second, {})
        self.assertEqual('h3', limits.choose('2', ['h3'], (), second, {'a': 'h2'}))

    def test_host_that_failed_before_comes_last(self) -> None:
        choices = self.context.capacity
        self.assertEqual('h3', choices.choose('a', ['h2', 'h3'], avoid=['h2']))
        self.assertEqual('h2', choices.choose('a', ['h2'], avoid=['h2']))

    def test_full_host_is_skipped(self) -> None:
        choices = self.make_context(servers.Limits(0, 1)).capacity
        self.assertEqual(['h2', 'h3', None],
                         [choices.choose(str(number), ['h2', 'h3']) for number in range(3)])
        choices.leave('0')
        self.assertEqual('h2', choices.choose('2', ['h2', 'h3']))

    def test_promoted_backup_takes_no_room_but_keeps_its_place_in_the_group(self) -> None:
        limits = self.make_context(servers.Limits(1, 1)).capacity
        self.make_recovery('b', state=model.COMMITTED, destination='h2')
        server = base.make_server('a', group={'id': 'g', 'members': ['a', 'b']})
        self.assertIsNone(limits.full())
        self.assertEqual({'b': 'h2'}, limits.placed(server))
        self.assertEqual('h2', limits.choose('x', ['h2']))

    def test_backup_that_was_taken_over_keeps_its_host(self) -> None:
        recovery = self.make_recovery('b', state=model.RACING, destination='h2')
        limits = self.context.capacity
        self.assertIsNone(limits.full())
        limits.enter(recovery.id)
        self.assertEqual('h3', limits.choose('x', ['h2', 'h3']))
        self.assertTrue(limits.races('h1'))
        limits.leave(recovery.id)
        self.assertFalse(limits.races('h1'))

    def test_recovery_has_its_slot_until_it_leaves(self) -> None:
        limits, freed = self.context.capacity, mock.Mock()
        limits.freed = freed
        self.make_recovery('x', state=model.RACING, destination='h2')
        limits.enter('mine')
        self.assertIsNone(limits.full())
        # Those of other engines have slots of theirs.
        self.assertEqual(({'mine'}, 1), (limits.held(), limits.count()))
        for _ in range(2):
            limits.leave('mine')
        self.assertEqual(set(), limits.held())
        freed.assert_called_once_with()
        limits.choose('mine', ['h2'])
        self.assertEqual({'mine'}, limits.held())

    def test_full_hosts_make_the_backup_wait(self) -> None:
        choices = self.make_context(servers.Limits(2, 0)).capacity
        choices.enter('0')
        self.assertIsNone(choices.full())
        self.make_recovery('x', state=model.RACING)
        self.clock.sleep(1.0)
        self.assertIsNotNone(choices.full())
        choices.leave('0')
        self.assertIsNone(choices.full())
