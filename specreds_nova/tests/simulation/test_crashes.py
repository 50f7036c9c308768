# SPDX-License-Identifier: Apache-2.0
"""An engine is killed before or after the effect of any of its calls; another one continues."""

import ddt

from specreds_nova.tests.simulation import base
from testing.simulation import clients

# Calls that are repeated all the time: being killed at each of them would show nothing new.
_REPEATED_CALLS = ('store.hosts', 'store.active', 'cinder.ours', 'store.prune', 'host.status',
         'cinder.written', 'nova.service')
_SEEDS = {'host_dies': 3, 'silent_and_idle': 4, 'stalled_primary': 5, 'late_dirty': 2,
            'late_dirty_and_back': 5, 'destination_dies': 9, 'no_plugin_elsewhere': 4,
            'primary_returns_late': 3, 'crashed': 2, 'host_reboots': 7, 'volumes_keep_changing': 4,
            'deleted_on_its_dead_host': 2, 'drill': 3, 'drill_gives_way': 2}


@ddt.ddt
class CrashesTest(base.StoryTest):
    """A recovery that is cut off at any call is continued."""

    @ddt.idata(sorted(_SEEDS))
    def test_engine_killed_at_each_call(self, name: str) -> None:
        seed = _SEEDS[name]
        calls = self.play(name, seed).calls
        numbers = [number for number, call in enumerate(calls, 1) if call not in _REPEATED_CALLS]
        # The first of two engines may have done the whole recovery or a part of it.
        for number in numbers[::max(1, len(numbers) // 24)]:
            for after in (False, True):
                self.play(name, seed, clients.Faults(kill_at=number, after=after),
                          any_outcome=True)

    @ddt.data('late_dirty', 'silent_and_idle', 'late_dirty_and_back')
    def test_engine_killed_at_the_decision(self, name: str) -> None:
        played = 0
        for seed in range(12):
            calls = self.play(name, seed).calls
            for number, call in enumerate(calls, 1):
                if call == 'cinder.collapse':
                    played += 1
                    for after in (False, True):
                        self.play(name, seed, clients.Faults(kill_at=number, after=after),
                                  any_outcome=True)
        self.assertGreater(played, 0)
