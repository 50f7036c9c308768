# SPDX-License-Identifier: Apache-2.0
"""The simulation notices when an engine does what it must not: engines that lack a precaution."""

from collections.abc import Iterable
from typing import Any
from unittest import mock

import ddt

from specreds_nova.engine.recovery import moving
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import starting
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.tests.simulation import base
from specreds_nova.tests.simulation import ends
from specreds_nova.tests.simulation import story

_on = starting._on


def _same_disks(run: runs.Run, host: str, superposition: str) -> verdicts.Verdict | None:
    """Take a host that does not answer for one on which nothing was begun."""
    found = _on(run, host, superposition)
    if found is not None and found.kind == verdicts.AGAIN:
        return verdicts.Verdict(starting._ELSEWHERE, found.why)
    return found


@ddt.ddt
class WatchTest(base.StoryTest):
    """A precaution that is left out shows."""

    @ddt.data(
        ('it does not ask for the last time', runs.Run, 'spared', lambda self: None,
         'operator_suspects', range(5)),
        ('disks that may be open elsewhere', starting, '_on', _same_disks,
         'destination_cut', range(50, 300)),
        ('whether it runs', ends.Compute, 'runs', lambda self, server: False, 'crashed', range(3)),
        ('who has stopped it', ends.Compute, 'stopped_by_itself', lambda self, server: True,
         'crashed_and_stopped', range(10)),
        ('an evacuation to a host that died', moving._Move, '_stuck', lambda self, server: False,
         'two_hosts', range(20)))
    @ddt.unpack
    def test_left_out(self, what: str, owner: Any, name: str, instead: Any, told: str,
                      seeds: Iterable[int]) -> None:
        with mock.patch.object(owner, name, instead):
            # Few interleavings show it, and one is enough.
            wrong = next((found for seed in seeds
                          if (found := story.Story(story.load(told), seed).run().wrong)), [])
        self.assertNotEqual([], wrong, what)

    @ddt.data(('insisting', 'late_dirty_and_back'), ('standing', 'late_dirty'))
    @ddt.unpack
    def test_left_out_after_a_crash(self, name: str, told: str) -> None:
        wrong = []
        instead = {'insisting': lambda self: False, 'standing': lambda self: None}[name]
        for seed in range(8):
            calls = self.play(told, seed).calls
            for number in [number for number, call in enumerate(calls, 1)
                           if call in ('cinder.collapse', 'store.end_step')][-6:]:
                with mock.patch.object(runs.Run, name, instead):
                    wrong += story.Story(story.load(told), seed, ends.Faults(
                        kill_at=number, after=True)).run().wrong
        self.assertTrue(any('is seen on []' in one or 'has not ended' in one for one in wrong),
                        wrong)
