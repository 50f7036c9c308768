# SPDX-License-Identifier: Apache-2.0
"""The simulation detects engines that lack a precaution."""

from collections.abc import Iterable
from typing import Any
from unittest import mock

import ddt

from specreds_nova.engine.recovery import evacuation
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import decide
from specreds_nova.engine.recovery.steps import start
from specreds_nova.tests.simulation import base
from specreds_nova.tests.simulation import story
from testing.simulation import clients

_on = start._on


def _same_disks(run: runs.Run, host: str, superposition: str) -> verdicts.StepVerdict | None:
    """Treat a host that does not answer as one on which no backup was begun."""
    verdict = _on(run, host, superposition)
    if verdict is not None and verdict.kind == verdicts.AGAIN:
        return verdicts.StepVerdict(start._ELSEWHERE, verdict.why)
    return verdict


@ddt.ddt
class WatchTest(base.StoryTest):
    """An engine without a precaution makes a story fail."""

    @ddt.data(
        ('the last looks before the decision', runs.Run, ('spared', 'lives'), lambda self: None,
         'operator_suspects', range(5)),
        ('disks may be open on another host', start, ('_on',), _same_disks,
         'destination_cut', range(50, 300)),
        ('whether the server runs', clients.Compute, ('runs',), lambda self, server: False,
         'crashed', range(3)),
        ('whether a user has stopped the server', clients.Compute, ('stopped_by_itself',),
         lambda self, server: True, 'crashed_and_stopped', range(10)),
        ('an evacuation to a host that has died', evacuation._Evacuation, ('_stuck',),
         lambda self, server: False, 'two_hosts', range(20)),
        ('the wait for the lease on the network', decide, ('wait_unseen',), lambda run: None,
         'isolated', range(3)),
        ('the same for a host that beats', decide, ('wait_unseen',), lambda run: None,
         'storage_lost', range(3)))
    @ddt.unpack
    def test_missing_precaution_is_detected(
            self, precaution: str, owner: Any, names: tuple[str, ...], instead: Any, tale: str,
            seeds: Iterable[int]) -> None:
        with mock.patch.multiple(owner, **dict.fromkeys(names, instead)):
            # Few interleavings show it, and the first one is enough.
            wrong = next((faults for seed in seeds if (
                faults := story.Story(story.load(tale), seed).run().wrong)), [])
        self.assertNotEqual([], wrong, precaution)

    @ddt.data('isolated', 'storage_lost', 'isolated_without_room')
    def test_missing_lease_is_detected(self, name: str) -> None:
        tale = story.load(name)
        tale.setdefault('options', {})['sentinel_network_lease'] = 0.0
        wrong = story.Story(tale, 0).run().wrong
        self.assertIn('would be seen twice', ' '.join(wrong))

    @ddt.data(('insisting', 'late_dirty_and_back'), ('standing', 'late_dirty'))
    @ddt.unpack
    def test_missing_precaution_is_detected_after_a_crash(self, name: str, tale: str) -> None:
        wrong = []
        instead = {'insisting': lambda self: False, 'standing': lambda self, **values: None}[name]
        for seed in range(8):
            calls = self.play(tale, seed).calls
            for number in [number for number, call in enumerate(calls, 1)
                           if call in ('cinder.collapse', 'store.change')][-6:]:
                with mock.patch.object(runs.Run, name, instead):
                    wrong += story.Story(story.load(tale), seed, clients.Faults(
                        kill_at=number, after=True)).run().wrong
        self.assertTrue(any('is seen on []' in fault or 'has not ended' in fault
                            for fault in wrong), wrong)
