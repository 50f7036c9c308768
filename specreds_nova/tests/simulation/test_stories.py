# SPDX-License-Identifier: Apache-2.0
"""Every story, in many interleavings."""

import os
import subprocess
import sys

import ddt

from specreds_nova.tests.simulation import base
from specreds_nova.tests.simulation import story

_SEEDS = range(10)


@ddt.ddt
class StoriesTest(base.StoryTest):
    """Each story ends as it should in every interleaving."""

    @ddt.idata(story.names())
    def test_story(self, name: str) -> None:
        for seed in _SEEDS:
            self.play(name, seed)

    def test_second_failure_waits_for_its_own_full_time(self) -> None:
        for seed in _SEEDS:
            history = self.play('dies_again_while_fenced', seed).history
            recovery = [entry for entry in history if entry.server == 'b'][-1]
            adopted = next(step for step in recovery.steps if step.name == 'adopt')
            self.assertGreater(adopted.began, 1101.0)

    def test_same_seed_gives_the_same_story(self) -> None:
        first, second = (self.play('everything', 3) for _ in range(2))
        self.assertEqual(first.calls, second.calls)
        self.assertEqual(first.outcomes, second.outcomes)

    def test_stories_are_as_their_golden_logs(self) -> None:
        # The order of sets is part of what a seed determines, so it has a process of its own.
        ran = subprocess.run(
            [sys.executable, '-W', 'ignore', '-m', 'specreds_nova.tests.simulation.golden'],
            env=os.environ | {'PYTHONHASHSEED': '0'}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(0, ran.returncode, ran.stdout)
        self.assertIn('are as their golden logs', ran.stdout)
