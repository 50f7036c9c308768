# SPDX-License-Identifier: Apache-2.0
"""Measure what a large sweep costs the client, without processes and with several."""

from collections.abc import Iterator
import contextlib
import resource
import sys

from bench import environment
from bench import images
from bench import stats
from specreds_cinder import superposition as sp
from specreds_cinder.superposition import sweep_process
from specreds_cinder.superposition import sweep_processes

# A volume of 1 TiB.
_OBJECTS = 1 << 18
_PROCESSES = (1, 2)
_ROUNDS = 3
# A volume of 64 TiB, swept by processes that sleep as long as librados's thread works for an
# object, since this machine has neither the processors nor the OSDs for them.
_SIMULATED_OBJECTS = 1 << 24
_SIMULATED_PROCESSES = 4
_OBJECT_US = 4.4


def run(env: environment.Environment) -> dict[str, float]:
    """Measure, and return the figures by their keys.

    :raises RuntimeError: a sweep ended early, because the volume is dirty
    """
    figures: dict[str, list[float]] = {}
    with _superposed(env, _OBJECTS) as record:
        for number in range(1 if env.quick else _ROUNDS):
            for count in _PROCESSES if number % 2 == 0 else reversed(_PROCESSES):
                for key, value in _sweep(env, record, _OBJECTS, count).items():
                    figures.setdefault(f'collapse.large_sweep.{count}.{key}', []).append(value)
    return {key: stats.summary(values).median for key, values in figures.items()} | {
        f'collapse.sweep_64tib.{key}': value for key, value in _simulated(env).items()}


def _simulated(env: environment.Environment) -> dict[str, float]:
    """Sweep a volume of 64 TiB with processes that stat nothing, and return the figures."""
    command, name = sweep_process.COMMAND, f'{__package__}.sweep_process'
    with _superposed(env, _SIMULATED_OBJECTS) as record:
        sweep_process.COMMAND = (sys.executable, '-m', name, str(_OBJECT_US))
        try:
            figures = _sweep(env, record, _SIMULATED_OBJECTS, _SIMULATED_PROCESSES)
        finally:
            sweep_process.COMMAND = command
    return {key: figures[key] for key in ('s', 'own_us')}


@contextlib.contextmanager
def _superposed(env: environment.Environment, objects: int) -> Iterator[sp.Record]:
    """Superpose a new volume while the context lasts."""
    record = env.protocol.super([images.mapped(env.cluster, objects)], reason='benchmark')
    yield record
    env.protocol.abort(record)


def _sweep(env: environment.Environment, record: sp.Record, objects: int,
           count: int) -> dict[str, float]:
    """Sweep with so many processes, and return the figures; one process is none of its own."""
    protocol = sp.Protocol(env.cluster, sp.Settings(
        sweep_processes=count, sweep_objects_per_process=objects // count))
    own, others = _used(resource.RUSAGE_SELF), _used(resource.RUSAGE_CHILDREN)
    report = protocol.check(record)
    # Only the processor time of processes that have ended is known.
    sweep_processes.wait_ended()
    if not report.clean or report.objects != objects:
        raise RuntimeError(f'a sweep of {objects} objects, to which no client writes, ended '
                           f'early: {report.first}')
    return {'own_us': (_used(resource.RUSAGE_SELF) - own) / objects * 1e6,
            'processes_us': (_used(resource.RUSAGE_CHILDREN) - others) / objects * 1e6,
            's': report.seconds}


def _used(by: int) -> float:
    """Return the processor time of this process, or of its children that have ended."""
    usage = resource.getrusage(by)
    return usage.ru_utime + usage.ru_stime
