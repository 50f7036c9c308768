# SPDX-License-Identifier: Apache-2.0
"""Protocols that are broken on purpose, and a race that each of them loses."""

from collections.abc import Callable, Collection, Iterator
import contextlib
import time
from unittest import mock

from specreds_cinder import superposition
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.evidence import sweep
from specreds_cinder.superposition.exclusion import fence
from specreds_cinder.superposition.exclusion import handover
from specreds_cinder.superposition.steps import base
from specreds_cinder.superposition.steps import collapse
from specreds_cinder.superposition.truth import record as records
from testing.race import blocks
from testing.race import control
from testing.race import disks
from testing.race import outcomes
from testing.race import round as rounds
from testing.race import site as sites

_MIB = 16
_BLOCKS = (_MIB << 20) // blocks.SIZE
_ORDER = 18
_ACKNOWLEDGED_S = 10.0
_TORRENT_S = 0.1


class NoSecondSweep(superposition.Protocol):
    """Assumes that nothing was written between the first sweep and the fence."""

    def collapse(self, record: superposition.Record,
                 backup: superposition.QmpBackup | None = None, *,
                 durable: bool = False) -> superposition.CollapseReport:
        """Collapse without a sweep behind the fence."""
        def sweep_second(_site: object, record: superposition.Record,
                         _renew: Callable[[], None]) -> superposition.SweepReport:
            with trace.span('sweep', record.id):
                return superposition.SweepReport(False, None, 0, 0.0)
        with _second_sweep(sweep_second):
            return super().collapse(record, backup, durable=durable)


class HastySecondSweep(superposition.Protocol):
    """Stops the sweep after the fence at the first dirty object.

    It closes no latches: an operation on a header brings the fence to an OSD as a sweep does, and
    hides the error where a pool has one OSD.
    """

    def collapse(self, record: superposition.Record,
                 backup: superposition.QmpBackup | None = None, *,
                 durable: bool = False) -> superposition.CollapseReport:
        """Collapse with a hasty sweep behind the fence, and without latches."""
        swept = collapse._sweep

        def sweep_second(site: base.Site, record: superposition.Record,
                         renew: Callable[[], None]) -> superposition.SweepReport:
            with mock.patch.object(sweep, '_BATCH', 1):
                return swept(site, record, thorough=False, renew=renew)
        with _second_sweep(sweep_second), \
                mock.patch.object(collapse, '_latch', lambda _site, _record: None):
            return super().collapse(record, backup, durable=durable)


@contextlib.contextmanager
def _second_sweep(sweep_second: Callable[[base.Site, superposition.Record, Callable[[], None]],
                                         superposition.SweepReport]) -> Iterator[None]:
    """Replace the sweep behind the fence while the context lasts."""
    swept = collapse._sweep

    def sweep_once(site: base.Site, record: superposition.Record, *, thorough: bool,
                   renew: Callable[[], None] = lambda: None,
                   sealed: Collection[records.Volume] | None = None) -> superposition.SweepReport:
        return (sweep_second(site, record, renew) if thorough
                else swept(site, record, thorough=False, renew=renew, sealed=sealed))
    with mock.patch.object(collapse, '_sweep', sweep_once):
        yield


class _HastyFence(fence.Fence):
    def wait_osdmap(self) -> None:
        pass


class NoOsdmapWait(superposition.Protocol):
    """Sweeps after the fence without waiting for its osdmap."""

    def __init__(self, cluster: superposition.Cluster) -> None:
        super().__init__(cluster)
        self.fence = _HastyFence(cluster, self.settings.fence_expiry_s)


@mock.patch.object(handover, 'request', lambda *_arguments, **_options: None)
def ambush(site: sites.Site, seed: int, images: int, *,
           early: bool) -> tuple[outcomes.Result, list[str]]:
    """Play a round in which the primary writes at the worst time, and no request reaches it.

    The primary is idle during the first sweep, and writes to its last image as fast as it can as
    soon as the second sweep is over.

    :param images: number of its images
    :param early: the primary also writes once to its first image before the fence
    :returns: the round's result and its story
    """
    race = rounds.Round(site, disks.Shape((_MIB,) * images, _ORDER, True, ''), seed)
    try:
        race.primary.quiet()
        race.superpose()
        sweeps = 0

        def observer(event: trace.Event) -> None:
            nonlocal sweeps
            if (event.name, event.phase) != ('sweep', 'after'):
                return
            sweeps += 1
            if sweeps == 1 and early:
                _write_once(race)
            elif sweeps == 2:
                race.pace(control.Mode.TORRENT, control.Target(images - 1, 0, _BLOCKS))
                time.sleep(_TORRENT_S)
        with trace.observe(observer):
            race.collapse()
        return race.finish(), race.story
    finally:
        race.close()


def _write_once(race: rounds.Round) -> None:
    """Let the primary write into its first object until the write is acknowledged."""
    began = time.monotonic()

    def acknowledged() -> bool:
        return any(op.issued > began and op.acknowledged for op in race.primary.ops())
    race.pace(control.Mode.SLOW, control.Target(0, 0, 1))
    control.wait(acknowledged, 'no write of the primary is acknowledged', _ACKNOWLEDGED_S)
    race.primary.quiet()
