# SPDX-License-Identifier: Apache-2.0
"""Every story, in many interleavings."""

import ddt

from specreds_nova.tests.simulation import base
from specreds_nova.tests.simulation import story

_SEEDS = range(10)


@ddt.ddt
class StoriesTest(base.StoryTest):
    """Stories end as they should, whatever comes first."""

    @ddt.idata(story.names())
    def test_story(self, name: str) -> None:
        for seed in _SEEDS:
            self.play(name, seed)

    def test_a_second_failure_counts_from_its_own_beginning(self) -> None:
        for seed in _SEEDS:
            history = self.play('dies_again_while_fenced', seed).history
            found = [one for one in history if one.server == 'b'][-1]
            adopted = next(step for step in found.steps if step.name == 'adopt')
            self.assertGreater(adopted.began, 1101.0)

    def test_the_same_seed_is_the_same_story(self) -> None:
        first, second = (self.play('everything', 3) for _ in range(2))
        self.assertEqual(first.calls, second.calls)
        self.assertEqual(first.outcomes, second.outcomes)
