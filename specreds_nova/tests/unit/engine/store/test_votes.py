# SPDX-License-Identifier: Apache-2.0
"""Votes of engines in the store."""

from specreds_nova.engine import model
from specreds_nova.tests.unit.engine.store import base


class VotesTest(base.StoreTest):
    """The votes of two engines."""

    def setUp(self) -> None:
        super().setUp()
        self.first = model.Vote('e1', False, ('h1',), {'h2': ('s1', 's2'), 'h3': None}, ('h4',),
                                counter=1)
        self.second = model.Vote('e2', True, counter=1)

    def test_votes_are_read_back_by_name(self) -> None:
        for vote in (self.second, self.first):
            self.store.vote(vote)
        self.assertEqual([self.first, self.second], self.store.votes())

    def test_ages_of_silent_hosts_are_read_back(self) -> None:
        self.store.vote(model.Vote('e1', silent=('h1', 'h2'), ages={'h1': 1.5, 'h2': 0.0}))
        [vote] = self.store.votes()
        self.assertEqual((('h1', 'h2'), {'h1': 1.5, 'h2': 0.0}), (vote.silent, vote.ages))

    def test_later_vote_replaces_an_earlier_one(self) -> None:
        later = model.Vote('e1', counter=3)
        for vote in (self.first, self.second, model.Vote('e1'), model.Vote('e1')):
            self.store.vote(vote)
        self.assertEqual([later, self.second], self.store.votes())

    def test_counter_is_at_least_that_of_the_vote(self) -> None:
        # As of an engine that has written more than the table has, which was restored.
        later = model.Vote('e1', counter=9)
        for vote in (self.first, later):
            self.store.vote(vote)
        self.assertEqual([later], self.store.votes())

    def test_only_the_latest_vote_is_withdrawn(self) -> None:
        later = model.Vote('e1', counter=2)
        for vote in (self.first, self.second, later):
            self.store.vote(vote)
        self.store.withdraw(self.first)
        self.assertEqual([later, self.second], self.store.votes())
        for _ in range(2):
            self.store.withdraw(later)
        self.assertEqual([self.second], self.store.votes())
