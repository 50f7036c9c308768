# SPDX-License-Identifier: Apache-2.0
"""An engine is killed before or after the effect of any of its calls; another one continues."""

from collections.abc import Iterator
import pathlib
import random
import tempfile
from typing import Any

import ddt
from taskflow.persistence import backends

from specreds_nova.engine.flows import persistence
from specreds_nova.engine.flows import runner
from specreds_nova.tests.simulation import base
from specreds_nova.tests.simulation import ends

# Calls that are repeated all the time: being killed at each of them would show nothing new.
_REPEATED_CALLS = ('store.hosts', 'store.active', 'cinder.ours', 'store.prune', 'host.status',
         'cinder.written', 'nova.service')
_SEEDS = {'host_dies': 3, 'silent_and_idle': 4, 'stalled_primary': 5, 'late_dirty': 2,
            'late_dirty_and_back': 5, 'destination_dies': 9, 'no_plugin_elsewhere': 4,
            'primary_returns_late': 3, 'crashed': 2, 'host_reboots': 7, 'never_ready_evacuate': 4}


class _Lagging(persistence.LogbookCache):
    """A notebook that writes its notes at once or not at all."""

    def __init__(self, backend: Any, seed: int) -> None:
        super().__init__(backend)
        self._random = random.Random(seed)

    def _note(self, recovery_id: str) -> None:
        super()._note(recovery_id)
        if self._random.random() < 0.3:
            self.write(late=0.0)

    def open(self, recovery_id: str, *, known: bool) -> Any:
        """Open a book from the database only, as another process would."""
        with self._lock:
            self._books.pop(recovery_id, None)
        return super().open(recovery_id, known=known)


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
                self.play(name, seed, ends.Faults(kill_at=number, after=after),
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
                        self.play(name, seed, ends.Faults(kill_at=number, after=after),
                                  any_outcome=True)
        self.assertGreater(played, 0)

    def test_engine_killed_in_a_taskflow_flow(self) -> None:
        for number, kept in self._flows():
            self.play('host_dies', 3, ends.Faults(kill_at=number, after=bool(number % 2)),
                      kept.run)

    def _flows(self) -> Iterator[tuple[int, runner.FlowRunner]]:
        """Yield calls at which to kill an engine, each with a database of its own."""
        calls = self.play('host_dies', 3).calls
        numbers = [number for number, call in enumerate(calls, 1) if call not in _REPEATED_CALLS]
        with tempfile.TemporaryDirectory() as directory:
            for number in numbers[::max(1, len(numbers) // 10)]:
                path = pathlib.Path(directory) / f'{number}.sqlite'
                backend = backends.fetch({'connection': f'sqlite:///{path}',
                                          'checkin_yield': False})
                runner.prepare(backend)
                kept = runner.FlowRunner(_Lagging(backend, number), 0)
                yield number, kept
                kept.close()
