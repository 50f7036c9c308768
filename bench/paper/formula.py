# SPDX-License-Identifier: Apache-2.0
"""Figure 6 as the paper computes it: sums of timeouts and recoveries.

REDS waits for its timeout and recovers on the volume itself; it takes a host that only stands
still for dead. SpecREDS recovers at once, on a superposed disk or on an RBD clone; the Oracle, at
once, too, on the volume itself. Where the primary comes back five seconds after the short timeout,
both let it, and nobody was served until then.
"""

from collections.abc import Mapping
import dataclasses

LONG_TIMEOUT, SHORT_TIMEOUT, HEALED = 60.0, 5.0, 5.0
# What the engine took, of the parts of a recovery.
_ENGINE = ('detect', 'dispatch', 'super', 'hold', 'harden', 'unseen', 'collapse', 'promote')
REDS, CLONE, SPEC, ORACLE = 'REDS', 'SpecREDS (rbd-clone)', 'SpecREDS', 'Oracle'
MASAKARI_AT_ONCE, MASAKARI = 'Masakari, no wait', 'Masakari'
# The recoveries of an accident: the database's, and the small server's.
BOTH = ('long', 'short')
# The five places on the x axis, with the paper's numbers: timeout, recovery.
GROUPS = ('(I) 60 s, long', '(II) 60 s, short', '(III) 5 s, long',
          '(IV) 5 s, long, alive', '(V) 5 s, short')


@dataclasses.dataclass(frozen=True)
class Recovery:
    """The seconds of one recovery on each kind of disk."""

    rbd: float
    super: float
    clone: float | None = None


def bars(long: Recovery, short: Recovery) -> dict[str, list[float]]:
    """Return the seconds without service: by series, for each group.

    A series of which a recovery is not known is left out.
    """
    seconds = {REDS: [LONG_TIMEOUT + long.rbd, LONG_TIMEOUT + short.rbd, SHORT_TIMEOUT + long.rbd,
                      SHORT_TIMEOUT + long.rbd, SHORT_TIMEOUT + short.rbd]}
    if long.clone is not None and short.clone is not None:
        seconds[CLONE] = _without_timeout(long.clone, short.clone)
    seconds[SPEC] = _without_timeout(long.super, short.super)
    seconds[ORACLE] = _without_timeout(long.rbd, short.rbd)
    return seconds


def _without_timeout(long: float, short: float) -> list[float]:
    return [long, short, long, SHORT_TIMEOUT + HEALED, short]


def measured(figures: Mapping[str, float]) -> dict[str, list[float | None]]:
    """Return the measured figures in the form of the paper's sums; a missing one is None.

    The long recovery is the database's, the short one the small server's; both die in the same
    accident. REDS with a timeout does the same to a host that lives as to one that is dead; the
    Oracle lets it live, and where the backup is dropped its kind of disk does not matter.
    """
    def one(accident: str, server: str) -> float | None:
        return figures.get(f'paper.accident.{accident}.{server}_s')

    alive = one('suspicion', 'database')
    seconds = {REDS: [one('reds60', 'database'), one('reds60', 'web'), one('reds5', 'database'),
                      one('reds5', 'database'), one('reds5', 'web')]}
    for series, accident in ((CLONE, 'clone'), (SPEC, 'spec'), (ORACLE, 'oracle')):
        long, short = one(accident, 'database'), one(accident, 'web')
        seconds[series] = [long, short, long, None if long is None else alive, short]
    return {series: values for series, values in seconds.items()
            if any(value is not None for value in values)}


def beside_peers(figures: Mapping[str, float]) -> dict[str, list[float | None]]:
    """Return the seconds without service of this project and of Masakari, long and short.

    They are from one run: of the demo with a peer, or of ``bench failover`` with one, which
    measures the database alone.

    :returns: by series; empty unless both were measured
    """
    keys = {SPEC: 'spec', MASAKARI_AT_ONCE: 'masakari0', MASAKARI: 'masakari'}
    for names in (('failover.{}_s', None),
                  ('paper.accident.{}.database_s', 'paper.accident.{}.web_s')):
        seconds = {series: [None if name is None else figures.get(name.format(key))
                            for name in names] for series, key in keys.items()}
        shown = {series: values for series, values in seconds.items() if values[0] is not None}
        if SPEC in shown and len(shown) > 1:
            return shown
    return {}


def recoveries(figures: Mapping[str, float]) -> tuple[Recovery, Recovery] | None:
    """Return the long and the short recovery as measured end to end.

    On a superposed disk it is what nobody was served for without what the engine took to suspect
    the host, and to decide. Start and first answer belong to the Oracle's recovery as well.

    :returns: None if they were not
    """
    pair = []
    for server in ('database', 'web'):
        oracle = figures.get(f'paper.accident.oracle.{server}_s')
        spec = figures.get(f'paper.accident.spec.{server}_s')
        if oracle is None or spec is None:
            return None
        engine = sum(figures.get(f'paper.accident.spec.{name}_s', 0.0) for name in _ENGINE)
        pair.append(Recovery(oracle, max(0.0, spec - engine),
                             figures.get(f'paper.accident.clone.{server}_s')))
    return pair[0], pair[1]


def replayed(figures: Mapping[str, float]) -> tuple[Recovery, Recovery] | None:
    """Return the longest and the shortest replayed recovery, which the paper used.

    :returns: None if none was
    """
    replays = []
    for key in figures:
        name, dot, end = key.removeprefix('paper.fig5.').partition('.')
        if key.startswith('paper.fig5.') and dot and end == 'rbd_s':
            replays.append(Recovery(*(figures[f'paper.fig5.{name}.{kind}_s']
                                      for kind in ('rbd', 'super', 'clone'))))
    if not replays:
        return None
    replays.sort(key=lambda recovery: -recovery.rbd)
    return replays[0], replays[-1]
