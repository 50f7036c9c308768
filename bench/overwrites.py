# SPDX-License-Identifier: Apache-2.0
"""Count writes that librbd's cache loses if they overwrite others while Ceph stands still.

A client writes to new objects of a volume, so that each write has to wait for the object map. What
is acknowledged is overwritten in part. Ceph stands still for longer than a cache keeps a write to
itself; then everything is flushed. Nothing fails, and nobody is fenced; yet with the policy
``writeback`` some objects keep what was overwritten (:mod:`specreds_nova.cache_policy`).
"""

from collections.abc import Iterator
import contextlib
import signal
import time

import rados
import rbd

from bench import environment
from bench import images
from bench import options
from specreds_cinder import superposition as sp
from specreds_nova import cache_policy

NAME = options.OVERWRITES
POLICIES = (cache_policy.SAFE, 'writeback', 'writearound')
_OBJECTS = 96
_FIRST, _SECOND = b'\x0a' * 8192, b'\x0b' * 4096
# Longer than rbd_cache_max_dirty_age.
_STILL_S = 2.5


def run(env: environment.Environment) -> dict[str, float]:
    """Measure each policy, and return the figures by their keys."""
    env.progress.section(NAME, len(POLICIES))
    figures: dict[str, float] = {}
    for policy in POLICIES:
        env.progress.step(f'{policy}, {env.rounds} rounds')
        rounds = [_round(env, policy, number) for number in range(env.rounds)]
        figures[f'{NAME}.{policy}_acknowledged'] = sum(acknowledged for acknowledged, _ in rounds)
        figures[f'{NAME}.{policy}_lost'] = sum(lost for _, lost in rounds)
    return figures


def _round(env: environment.Environment, policy: str, number: int) -> tuple[int, int]:
    """Return how many overwriting writes were acknowledged and flushed, and how many are lost."""
    ref = images.create(env.cluster, f'{NAME}-{policy}-{number}', _OBJECTS * images.OBJECT)
    try:
        with _opened(env, ref, policy) as image:
            # The client gets the lock, and librbd begins to write back.
            image.write(_FIRST, 0)
            image.flush()
            overwritten = _overwrite(env, image)
        with env.cluster.ioctx(ref.pool) as io, rbd.Image(io, ref.image, read_only=True) as image:
            stored = [image.read(place + len(_SECOND), len(_SECOND)) for place in overwritten]
        return len(overwritten), sum(data != _SECOND for data in stored)
    finally:
        images.remove(env.cluster, ref)


def _overwrite(env: environment.Environment, image: rbd.Image) -> list[int]:
    """Write twice while all OSDs stand still, and return the places written twice.

    :raises RuntimeError: a write or a flush failed
    """
    places = [number * images.OBJECT for number in range(1, _OBJECTS)]
    with _still(env):
        first = {place: image.aio_write(_FIRST, place, _nothing) for place in places}
        flushes = [image.aio_flush(_nothing)]
        time.sleep(0.1)
        overwritten = [place for place in places if first[place].is_complete()]
        second = [image.aio_write(_SECOND, place + len(_SECOND), _nothing)
                  for place in overwritten]
        time.sleep(_STILL_S)
    flushes.append(image.aio_flush(_nothing))
    for completion in (*first.values(), *second, *flushes):
        completion.wait_for_complete_and_cb()
        if completion.get_return_value() < 0:
            raise RuntimeError(f'a request failed with error {-completion.get_return_value()}, '
                               f'so that it is not known what has to be stored')
    return overwritten


@contextlib.contextmanager
def _still(env: environment.Environment) -> Iterator[None]:
    """Stop all OSDs while the context lasts."""
    names = [f'osd.{number}' for number in range(env.ceph.settings.osds)]
    try:
        for name in names:
            env.ceph.signal_daemon(name, signal.SIGSTOP)
        yield
    finally:
        for name in names:
            env.ceph.signal_daemon(name, signal.SIGCONT)


@contextlib.contextmanager
def _opened(env: environment.Environment, ref: sp.VolumeRef, policy: str) -> Iterator[rbd.Image]:
    """Open a volume with librbd's cache, as QEMU with ``cache=writeback`` does."""
    options = {'rbd_cache': 'true', cache_policy.OPTION: policy}
    with (rados.Rados(conffile=env.cluster.conffile, name=f'client.{env.cluster.user}',
                      conf=options) as client,
          client.open_ioctx(ref.pool) as io, rbd.Image(io, ref.image) as image):
        yield image


def _nothing(_completion: rbd.Completion) -> None:
    """Do nothing when a request is complete: it is waited for."""
