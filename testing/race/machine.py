# SPDX-License-Identifier: Apache-2.0
"""The race as a Hypothesis state machine, which chooses steps, their order and their times.

No choice depends on an outcome, only on earlier choices: so a seed always gives the same steps,
although the same steps need not give the same outcome.
"""

from typing import Any

from hypothesis import stateful
from hypothesis import strategies

from specreds_nova import cache_policy
from testing.race import control
from testing.race import disks
from testing.race import outcomes
from testing.race import primary as primaries
from testing.race import round as rounds
from testing.race import site as sites

_SEEDS = strategies.integers(0, 2**32 - 1)
_SECONDS = strategies.floats(0, 0.4)
# Steps that bring a round no further, before its superposition.
_BEFORE = 3
_PRIMARY = strategies.sampled_from((control.Mode.PAUSED, control.Mode.STEADY,
                                    control.Mode.BURSTY))
_BACKUP = strategies.sampled_from((control.Mode.PAUSED, control.Mode.STEADY, control.Mode.BURSTY,
                                   control.Mode.SLOW))
_DISTURBANCES = strategies.sampled_from((*primaries.Disturbance, primaries.Disturbance.BURST))
_FATES = strategies.sampled_from(('lives', 'lives', 'hangs', 'dies'))
_MOSTLY = strategies.sampled_from((True, True, True, True, True, False))
_SHAPES = strategies.builds(
    disks.Shape,
    sizes=strategies.lists(strategies.sampled_from((8, 16, 32)), min_size=1,
                           max_size=3).map(tuple),
    order=strategies.sampled_from((16, 18, 20, 22)), fill=strategies.booleans(),
    cache=strategies.sampled_from(
        ('', '', '', cache_policy.SAFE, cache_policy.DEFAULT)).map(disks.cached))


class Race(stateful.RuleBasedStateMachine):
    """One round per run. Set ``site`` on a subclass.

    :cvar results: of all rounds, in order
    """

    site: sites.Site
    results: list[outcomes.Result]

    def __init__(self) -> None:
        super().__init__()
        self._race: rounds.Round | None = None
        self._superposed = self._decided = self._backed = False
        self._hangs = self._dead = False
        self._idle_steps = 0
        self._fate = ''

    def _goes_on(self) -> bool:
        """Return whether another step may come before the superposition."""
        return self._superposed or self._idle_steps < _BEFORE

    @property
    def _round(self) -> rounds.Round:
        assert self._race is not None
        return self._race

    @stateful.initialize(shape=_SHAPES, seed=_SEEDS, mode=_PRIMARY, fate=_FATES)
    def begin(self, shape: disks.Shape, seed: int, mode: control.Mode, fate: str) -> None:
        """Create the volumes and start their primary.

        :param fate: fate of the primary, the reason of the superposition
        """
        self._race = rounds.Round(self.site, shape, seed)
        self._race.pace(mode)
        self._fate = fate

    @stateful.precondition(lambda self: self._goes_on())
    @stateful.rule(seconds=_SECONDS)
    def run_on(self, seconds: float) -> None:
        """Let all processes run."""
        self._idle_steps += 1
        self._round.run(seconds)

    @stateful.precondition(lambda self: self._goes_on() and not self._dead)
    @stateful.rule(mode=_PRIMARY)
    def pace(self, mode: control.Mode) -> None:
        """Change the mode of the primary."""
        self._idle_steps += 1
        self._round.pace(mode)

    @stateful.precondition(lambda self: self._superposed and not self._hangs and not self._dead)
    @stateful.rule()
    def hang(self) -> None:
        """Stop the primary, so that it hangs."""
        self._round.hang()
        self._hangs = True

    @stateful.precondition(lambda self: self._hangs and not self._dead)
    @stateful.rule()
    def wake(self) -> None:
        """Wake the primary."""
        self._round.wake()
        self._hangs = False

    @stateful.precondition(lambda self: not self._superposed)
    @stateful.rule()
    def superpose(self) -> None:
        """Apply the primary's fate, and put the volumes into superposition."""
        if self._fate == 'hangs':
            self._round.hang()
        elif self._fate == 'dies':
            self._round.die()
        self._hangs, self._dead = self._fate == 'hangs', self._fate == 'dies'
        self._round.superpose()
        self._superposed = True

    @stateful.precondition(
        lambda self: self._superposed and not self._backed and not self._decided)
    @stateful.rule(mode=_BACKUP)
    def start_backup(self, mode: control.Mode) -> None:
        """Start the backup."""
        self._round.start_backup(mode)
        self._backed = True

    @stateful.precondition(lambda self: self._backed)
    @stateful.rule(mode=_BACKUP)
    def pace_backup(self, mode: control.Mode) -> None:
        """Change the mode of the backup."""
        self._round.pace_backup(mode)

    @stateful.precondition(lambda self: self._superposed and not self._decided)
    @stateful.rule()
    def check(self) -> None:
        """Sweep."""
        self._round.check()

    @stateful.precondition(lambda self: self._superposed and not self._decided)
    @stateful.rule()
    def note(self) -> None:
        """Change the headers."""
        self._round.note()

    @stateful.precondition(lambda self: self._superposed and not self._decided)
    @stateful.rule(promote=_MOSTLY, disturbance=_DISTURBANCES, delay=_SECONDS)
    def decide(self, promote: bool, disturbance: primaries.Disturbance, delay: float) -> None:
        """Decide for the primary, or for the backup unless the primary has written."""
        if promote:
            self._round.collapse(disturbance, delay)
        else:
            self._round.abort()
        self._decided = True

    @stateful.precondition(lambda self: self._decided and self._backed)
    @stateful.rule()
    def kill_backup(self) -> None:
        """Kill the backup if it was promoted."""
        self._round.kill_backup()

    @stateful.precondition(lambda self: self._decided)
    @stateful.rule(online=strategies.booleans())
    def merge(self, online: bool) -> None:
        """Merge if it was promoted."""
        self._round.merge(online=online)

    def teardown(self) -> None:
        """Check the round."""
        if self._race is None:
            return
        try:
            if self._race.broken:
                return
            if not self._superposed:
                self.superpose()
            result = self._race.finish()
            self.results.append(result)
        finally:
            self._race.close()
        if result.violations:
            raise AssertionError('\n'.join(self._race.story))


def machine(site: sites.Site) -> tuple[Any, list[outcomes.Result]]:
    """Return a state machine for a site, and the list of its results."""
    results: list[outcomes.Result] = []
    return type('RaceAt', (Race,), {'site': site, 'results': results}), results
