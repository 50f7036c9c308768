# SPDX-License-Identifier: Apache-2.0
"""Measure super while an OSD has died with its host, as where hypervisors are OSD hosts, too.

Until the monitors mark the OSD down (``osd_heartbeat_grace``, 20 s by default), the placement
groups of which it is the primary answer nobody. Neither could the guest of a backup read its disk,
so that is what super is compared with: how long it takes until all objects of the volume are read.
"""

from concurrent import futures
import signal
import time

from bench import environment
from bench import images
from bench import primary
from bench import stats
from specreds_cinder import superposition as sp
from specreds_cinder.superposition.ceph import volume as volumes

_OBJECTS = 1024
_DEPTH = 1024
_OSDS = 3


def run(env: environment.Environment, rounds: int) -> dict[str, float]:
    """Let one OSD after the other hang, and return the figures by their keys."""
    ref = images.populated(env.cluster, _OBJECTS)
    superposed, readable = [], []
    with primary.attached(env.cluster, [ref]), futures.ThreadPoolExecutor(1) as reader:
        for number in range(rounds):
            name = f'osd.{number % _OSDS}'
            began = time.monotonic()
            # What a host that has lost power sends: nothing.
            env.ceph.signal_daemon(name, signal.SIGSTOP)
            try:
                read = reader.submit(_read, env, ref, began)
                record = env.protocol.super([ref], reason='benchmark')
                superposed.append(time.monotonic() - began)
                readable.append(read.result())
            finally:
                env.ceph.signal_daemon(name, signal.SIGCONT)
            env.ceph.wait_clean()
            env.protocol.abort(record)
    return (stats.summary(superposed).entries('super.dead_osd_s')
            | stats.summary(readable).entries('super.dead_osd_readable_s')
            | stats.ratios(superposed, readable).entries('super.dead_osd_over_readable'))


def _read(env: environment.Environment, ref: sp.VolumeRef, began: float) -> float:
    """Return how long after a moment all objects of a volume have answered a client."""
    with environment.connected(env.ceph) as cluster:
        facts = volumes.inspect(cluster, ref)
        names = [f'{facts.data_prefix}.{number:016x}'.encode() for number in range(_OBJECTS)]
        cluster.aio.ioctx(facts.data_pool_id, '').stat_versions(names, _DEPTH)
        return time.monotonic() - began
