# SPDX-License-Identifier: Apache-2.0
"""Random rounds for a soak: the same steps as the state machine's, in a usual order."""

import random

from specreds_cinder import superposition
from specreds_nova import cache_policy
from testing.race import control
from testing.race import disks
from testing.race import outcomes
from testing.race import primary as primaries
from testing.race import round as rounds
from testing.race import site as sites

# Share of the primaries that are QEMU.
_QEMU = 0.25
# Shares of the primaries with the policies of librbd's cache.
_WRITE_AROUND, _WRITE_THROUGH = 0.1, 0.1
_MODES = {'live-steady': control.Mode.STEADY, 'idle': control.Mode.PAUSED}
_BACKUP_MODES = (control.Mode.PAUSED, control.Mode.STEADY, control.Mode.BURSTY, control.Mode.SLOW)


def shape(chance: random.Random, *, hostile: bool = False) -> disks.Shape:
    """Draw the disks of a round.

    :param hostile: some primaries are QEMU
    """
    order = chance.choice((16, 18, 20, 22))
    return disks.Shape(
        sizes=tuple(chance.choice((8, 16, 32)) for _ in range(chance.randint(1, 3))),
        order=order, fill=chance.random() < 0.4, cache=disks.cached(_policy(chance.random())),
        qemu=hostile and chance.random() < _QEMU)


def _policy(drawn: float) -> str:
    if drawn < _WRITE_AROUND:
        return cache_policy.DEFAULT
    return cache_policy.SAFE if drawn < _WRITE_AROUND + _WRITE_THROUGH else ''


# Share of the promoted backups that hang until they were merged: each takes half a minute.
_HUNG = 0.05
# Share of the rounds in which somebody changes the headers.
_NOTED = 0.15
# Share of the rounds with a second attempt.
_AGAIN = 0.25
# Share of the hung primaries that hang until Ceph does not list them, and for how long.
_FORGOTTEN, _FORGOTTEN_S = 0.15, (40.0, 110.0)


def play(site: sites.Site, kind: str, seed: int, story: list[str], *,
         hostile: bool = False) -> outcomes.Result:
    """Play one round, and return its result.

    :param kind: of primary, one of :data:`outcomes.KINDS`
    :param story: what happens is appended to this list
    :param hostile: some promoted backups hang until Ceph has forgotten them, and some rounds have
        two attempts
    """
    chance = random.Random(seed)
    race = rounds.Round(site, shape(chance, hostile=hostile), seed, story)
    try:
        _before(race, kind, chance)
        forgotten = hostile and kind == 'hung' and chance.random() < _FORGOTTEN
        if forgotten and chance.random() < 0.5:
            race.forget(chance.uniform(*_FORGOTTEN_S))
            forgotten = False
        race.superpose()
        if forgotten:
            race.forget(chance.uniform(*_FORGOTTEN_S))
        if kind == 'dead' and not race.primary.gone:
            race.die()
        _race(race, chance)
        if hostile and chance.random() < _AGAIN:
            race.again(backup_ends=chance.random() < 0.5)
            _race(race, chance)
        if hostile and chance.random() < _NOTED:
            race.note()
        if chance.random() < 0.3:
            race.check()
        if chance.random() < 0.05:
            race.abort()
        else:
            race.collapse(*_meanwhile(kind, chance))
            if hostile and chance.random() < _HUNG:
                race.hang_backup(cut=chance.random() < 0.5)
            else:
                _after(race, chance)
        return race.finish()
    except superposition.ClusterTimeout as exc:
        # Ceph did not answer, which proves nothing: the round counts as undecided.
        story.append(f'ERROR: {exc!r}')
        return outcomes.Result(kind, outcomes.UNDECIDED, None, [],
                               (*race.attacks, 'Ceph did not answer in time'))
    except (superposition.SuperError, control.WriterGone) as exc:
        story.append(f'ERROR: {exc!r}')
        return outcomes.Result(kind, outcomes.UNDECIDED, None, [f'error: {exc}'],
                               tuple(race.attacks))
    finally:
        race.close()


def _before(race: rounds.Round, kind: str, chance: random.Random) -> None:
    """Bring the primary into the condition that makes it suspected."""
    race.pace(_MODES.get(kind, control.Mode.BURSTY if chance.random() < 0.5
                         or kind == 'live-bursty' else control.Mode.STEADY))
    race.run(chance.uniform(0.05, 0.6))
    if kind == 'hung':
        race.hang(cut=chance.random() < 0.5)
    elif kind == 'dead' and chance.random() < 0.7:
        race.die()


def _race(race: rounds.Round, chance: random.Random) -> None:
    """Start a backup in most of the cases, and let it race."""
    if chance.random() < 0.7:
        race.start_backup(chance.choice(_BACKUP_MODES))
    race.run(chance.uniform(0, 0.4))


def _meanwhile(kind: str, chance: random.Random) -> tuple[primaries.Disturbance, float]:
    """Draw what happens to the primary during the collapse."""
    likely = {
        'hung': (primaries.Disturbance.NONE, primaries.Disturbance.WAKE),
        'idle': (primaries.Disturbance.NONE, primaries.Disturbance.BURST),
        'live-steady': (primaries.Disturbance.NONE, primaries.Disturbance.HANG,
                        primaries.Disturbance.CUT, primaries.Disturbance.DIE),
        'live-bursty': (primaries.Disturbance.NONE, primaries.Disturbance.HANG,
                        primaries.Disturbance.CUT, primaries.Disturbance.DIE),
    }.get(kind, (primaries.Disturbance.NONE,))
    return chance.choice(likely), chance.uniform(0, 0.4)


def _after(race: rounds.Round, chance: random.Random) -> None:
    """Continue with a promoted backup in one way or another."""
    race.pace_backup(chance.choice(_BACKUP_MODES))
    race.run(chance.uniform(0, 0.2))
    what = chance.choice(('online', 'offline', 'kill', 'nothing'))
    if what == 'kill':
        race.kill_backup()
    elif what != 'nothing':
        race.merge(online=what == 'online')
