# SPDX-License-Identifier: Apache-2.0
"""Measure the disk of a backup, compared with a plain and a cloned one."""

from bench import environment
from bench import firsttouch
from bench import fsync
from bench import images
from bench import replay
from bench import variants

_QUICK_SIZE = 1 * images.GIB
_FULL_SIZE = 4 * images.GIB


def run(env: environment.Environment, recording: replay.Recording | None) -> dict[str, float]:
    """Measure, and return the figures by their keys.

    :param recording: a recovery to replay, None to leave that out
    """
    size = _QUICK_SIZE if env.quick else _FULL_SIZE
    env.progress.section('disk', 1 + firsttouch.steps(env) + fsync.steps(env)
                         + (replay.steps(env) if recording else 0))
    env.progress.step(f'filling two images of {size // images.GIB} GiB')
    plain = images.create(env.cluster, 'disk-plain', size)
    base = images.create(env.cluster, 'disk-base', size)
    for ref in (plain, base):
        images.fill(env.cluster, ref, [(0, size)])
    images.snapshot(env.cluster, base, variants.SNAPSHOT)
    figures = firsttouch.run(env, plain, base, size) | fsync.run(env, plain, base, size)
    return figures | (replay.run(env, recording) if recording else {})
