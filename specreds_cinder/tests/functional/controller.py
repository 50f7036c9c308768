# SPDX-License-Identifier: Apache-2.0
"""A controller in a process of its own, which can be made to die at any of its changes."""

from collections.abc import Callable
import itertools
import multiprocessing
import os
import signal
from unittest import mock

from cloud import deadline
from specreds_cinder import superposition as sp
from specreds_cinder.superposition.exclusion import handover
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import base

_CONTEXT = multiprocessing.get_context('forkserver')
_CONTEXT.set_forkserver_preload([__name__])
_SECONDS = 120

Story = Callable[[sp.Protocol, list[sp.VolumeRef]], None]
# The primary writes this in the story of the late-dirty collapse.
LATE = {'offset': 128 << 10, 'byte': 0x4c, 'length': 4096}


def superpose(protocol: sp.Protocol, refs: list[sp.VolumeRef]) -> None:
    """Put volumes into superposition."""
    protocol.super(refs)


def superpose_dead(protocol: sp.Protocol, refs: list[sp.VolumeRef]) -> None:
    """Put volumes into superposition whose primary is said to be dead."""
    protocol.super(refs, dead=True)


def collapse(protocol: sp.Protocol, refs: list[sp.VolumeRef]) -> None:
    """Decide for the backup, unless the primary has written."""
    protocol.collapse(protocol.find(refs[0]))


def abort(protocol: sp.Protocol, refs: list[sp.VolumeRef]) -> None:
    """Decide for the primary."""
    protocol.abort(protocol.find(refs[0]))


def merge(protocol: sp.Protocol, refs: list[sp.VolumeRef]) -> None:
    """Merge promoted volumes."""
    protocol.merge(protocol.find(refs[0]))


class Death:
    """Kills this process at one of its changes, and counts them."""

    def __init__(self, number: int | None, phase: str) -> None:
        self._number = number
        self._phase = phase
        self._next = {'before': itertools.count(), 'after': itertools.count()}
        self.changes = 0

    def __call__(self, event: sp.trace.Event) -> None:
        if event.kind != 'change':
            return
        number = next(self._next[event.phase])
        self.changes = max(self.changes, number + 1)
        if (number, event.phase) == (self._number, self._phase):
            os.kill(os.getpid(), signal.SIGKILL)


def run(conf: str, refs: list[sp.VolumeRef], story: Story, number: int | None, phase: str,
        primary: str | None = None) -> int | None:
    """Run a story in a process of its own.

    :param number: the change at which the process dies; None to live
    :param phase: ``before`` or ``after`` the change
    :param primary: socket of a primary that writes between the first sweep and the fence
    :returns: number of its changes, None if it died
    :raises AssertionError: it ended in another way
    """
    answer: multiprocessing.queues.SimpleQueue[int] = _CONTEXT.SimpleQueue()
    process = _CONTEXT.Process(target=_live, args=(conf, refs, story, number, phase, primary,
                                                   answer))
    process.start()
    limit = deadline.Deadline(_SECONDS)
    while process.is_alive() and not limit.passed:
        process.join(1)
    if process.exitcode == 0:
        return answer.get()
    if process.exitcode != -signal.SIGKILL:
        process.kill()
        raise AssertionError(f'the controller ended with {process.exitcode}')
    return None


def _live(conf: str, refs: list[sp.VolumeRef], story: Story, number: int | None, phase: str,
          primary: str | None, answer: 'multiprocessing.queues.SimpleQueue[int]') -> None:
    death = Death(number, phase)

    def write(event: sp.trace.Event) -> None:
        if primary is not None and (event.name, event.phase) == ('fence', 'before'):
            actors.ask(actors.connect(primary), 'write', disk=1, **LATE)

    with sp.Cluster(conf, 'cinder', base.TIMEOUT) as cluster, sp.trace.observe(write), \
            sp.trace.observe(death), \
            mock.patch.object(handover, 'request', lambda *_arguments, **_options: None), \
            mock.patch.object(handover, 'lives', lambda *_arguments: False):
        story(sp.Protocol(cluster, sp.Settings()), refs)
    answer.put(death.changes)
