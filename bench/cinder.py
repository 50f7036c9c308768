# SPDX-License-Identifier: Apache-2.0
"""Measure how long super and collapse take through Cinder's REST API, and where the time goes.

The time that a client waits is split in three, by the clocks of the parts of one request:
*storage* is the protocol at work in the volume service, *rpc* the rest of the time that cinder-api
waits for that service (broker, locks, database), *http* the rest of the client's time.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import pathlib
import time
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import exceptions

from bench import environment
from bench import plots
from bench import primary
from bench import progress
from bench import stats
from cloud import cloud as openstack_cloud
from specreds_cinder import superposition as sp

_SIZE_GIB = 10
_LARGE_GIB = 1024
_VOLUMES = 60
_BASE = '/os-superpositions'
_POLL_S = 0.2
_TIMEOUT_S = 300.0
_PARTS = ('http', 'rpc', 'storage')


@dataclasses.dataclass(frozen=True)
class Split:
    """Duration of one request, whole and by part, in seconds."""

    total: float
    http: float
    rpc: float
    storage: float


class Api:
    """Cinder's API, used by an administrator.

    :param cloud: a cloud that is up
    """

    def __init__(self, cloud: openstack_cloud.Cloud) -> None:
        self._rest = adapter.Adapter(
            cloud.session(), service_type='block-storage', interface='public',
            additional_headers={'OpenStack-API-Version': 'volume 3.0, superposition 1.0'})
        # The first request also logs in, finds the endpoint and connects.
        self._rest.get(_BASE)

    def volumes(self, count: int, volume_type: str, size_gib: int = _SIZE_GIB) -> list[str]:
        """Create volumes on one back end, and return their ids."""
        ids = [self._rest.post('/volumes', json={'volume': {
            'size': size_gib, 'name': f'bench-{number}', 'volume_type': volume_type,
        }}).json()['volume']['id'] for number in range(count)]
        for volume_id in ids:
            self._wait(functools.partial(self._available, f'/volumes/{volume_id}'),
                       f'volume {volume_id} to be available')
        return ids

    def create(self, volume_ids: Sequence[str]) -> tuple[str, Split]:
        """Superpose volumes, and return the id of the superposition."""
        took, answer = self._timed(_BASE, {'superposition': {
            'volume_ids': list(volume_ids), 'reason': 'benchmark'}})
        superposition = answer['superposition']
        return superposition['id'], split(took, superposition['durations'])

    def promote(self, superposition_id: str) -> Split:
        """Promote the backup, and wait until the merge has ended.

        :raises RuntimeError: the collapse had another outcome
        """
        path = f'{_BASE}/{superposition_id}'
        took, answer = self._timed(f'{path}/collapse', {'collapse': {'decision': 'promote'}})
        collapse = answer['collapse']
        if collapse['outcome'] != 'promoted':
            raise RuntimeError(f'the primary is idle, but the collapse of {superposition_id} '
                               f'ended {collapse["outcome"]}')
        self._rest.post(f'{path}/merge', json={'merge': {'step': 'offline'}})
        self._wait(lambda: self._gone(path), f'superposition {superposition_id} to be merged')
        return split(took, collapse['durations'])

    def abort(self, superposition_id: str) -> None:
        """Abort a superposition."""
        path = f'{_BASE}/{superposition_id}'
        self._rest.delete(path)
        self._wait(lambda: self._gone(path), f'superposition {superposition_id} to be gone')

    def _timed(self, path: str, body: Mapping[str, Any]) -> tuple[float, dict[str, Any]]:
        began = time.monotonic()
        answer = self._rest.post(path, json=body)
        return time.monotonic() - began, answer.json()

    def _available(self, path: str) -> bool:
        status = self._rest.get(path).json()['volume']['status']
        if status == 'error':
            raise RuntimeError(f'{path} is in state error: see ./run cloud logs')
        return bool(status == 'available')

    def _gone(self, path: str) -> bool:
        try:
            self._rest.get(path)
        except exceptions.NotFound:
            return True
        return False

    @staticmethod
    def _wait(done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while not done():
            if time.monotonic() > deadline:
                raise RuntimeError(f'waited {_TIMEOUT_S:g} s for {what}')
            time.sleep(_POLL_S)


def split(total: float, durations: Mapping[str, float]) -> Split:
    """Split the duration of a request into its parts.

    :param total: duration of the request by the client's clock, in seconds
    :param durations: those in the answer: `rpc` as cinder-api measured it; `storage`, or `total`
        where that is not split, as the volume service measured it
    """
    rpc = durations['rpc']
    storage = durations['storage'] if 'storage' in durations else durations['total']
    return Split(total, total - rpc, rpc - storage, storage)


def run(cloud: openstack_cloud.Cloud, tell: progress.Progress, rounds: int,
        figures: pathlib.Path | None) -> dict[str, float]:
    """Measure on a cloud, and return the figures by their keys.

    :param rounds: number of times that all volumes of a host are superposed at once; one volume
        alone is superposed twice as often
    """
    single = 2 * rounds
    tell.section('cinder', 1 + single + 2 * rounds)
    tell.step(f'making {_VOLUMES} volumes')
    backend = cloud.backends[0]
    supers, collapses, many = [], [], []
    large: dict[int, list[float]] = {_SIZE_GIB: [], _LARGE_GIB: []}
    with environment.connected(cloud.ceph) as cluster:
        api = Api(cloud)
        ids = api.volumes(_VOLUMES, backend.name)
        refs = [sp.VolumeRef(backend.pool, '', f'volume-{volume_id}') for volume_id in ids]
        for number in range(single):
            tell.step(f'one volume, round {number + 1} of {single}')
            # A promotion fences the primary, so each round has a primary of its own.
            with primary.attached(cluster, refs[:1]):
                superposition_id, took = api.create(ids[:1])
                supers.append(took)
                collapses.append(api.promote(superposition_id))
        [large_id] = api.volumes(1, backend.name, _LARGE_GIB)
        for number in range(rounds):
            tell.step(f'volumes of {_SIZE_GIB} and {_LARGE_GIB} GiB, round {number + 1} of '
                      f'{rounds}')
            for size, volume_id in ((_SIZE_GIB, ids[0]), (_LARGE_GIB, large_id)):
                ref = sp.VolumeRef(backend.pool, '', f'volume-{volume_id}')
                with primary.attached(cluster, [ref]):
                    large[size].append(api.promote(api.create([volume_id])[0]).total)
        with primary.attached(cluster, refs):
            for number in range(rounds):
                tell.step(f'{_VOLUMES} volumes, round {number + 1} of {rounds}')
                superposition_id, took = api.create(ids)
                many.append(took)
                api.abort(superposition_id)
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        _draw(figures, {'super': supers, 'collapse --promote': collapses,
                        f'super of {_VOLUMES} volumes': many})
    return (_figures('cinder.super', supers) | _figures('cinder.collapse', collapses)
            | stats.summary([took * 1e3 for took in large[_LARGE_GIB]]).entries(
                'cinder.collapse_1tib_ms')
            | stats.ratios(large[_LARGE_GIB], large[_SIZE_GIB]).entries(
                'cinder.collapse_1tib_over_10gib')
            | stats.summary([took.total for took in many]).entries('cinder.sixty_volumes_s')
            | {f'cinder.sixty_volumes_{part}_s': _median(many, part) for part in _PARTS})


def _figures(key: str, splits: Sequence[Split]) -> dict[str, float]:
    figures = stats.summary([took.total * 1e3 for took in splits]).entries(f'{key}_ms')
    return figures | {f'{key}_{part}_ms': _median(splits, part) * 1e3 for part in _PARTS}


def _median(splits: Sequence[Split], part: str) -> float:
    return stats.summary([getattr(took, part) for took in splits]).median


def _draw(figures: pathlib.Path, measured: Mapping[str, Sequence[Split]]) -> None:
    columns = [sorted(splits, key=lambda took: took.total)[len(splits) // 2]
               for splits in measured.values()]
    with plots.drawing(
            figures / 'cinder.png', "Latency through Cinder's REST API, by part",
            f'volumes of {_SIZE_GIB} GiB that a primary has open; of all rounds, the one with '
            'the median latency') as (plot,):
        plots.stacked(plot, {part: [getattr(column, part) * 1e3 for column in columns]
                             for part in _PARTS}, list(measured), 'ms')
        plots.label(plot, 'request', 'time (ms)', room=1.25)
