# SPDX-License-Identifier: Apache-2.0
"""Events at each change that the protocol makes to the cluster, and at each of its phases.

Observers show progress, measure, or kill the process at a chosen moment.
"""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import logging
import threading
import time

LOG = logging.getLogger(__name__)

# Takes what is done, and what there is to do.
Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True)
class Event:
    """The beginning or end of a change or a span, or the progress of a span.

    :param kind: ``change`` (of the cluster), ``span`` (a phase of the protocol) or ``progress``
    :param name: name of the change or phase, for example ``record.create`` or ``sweep``
    :param target: the object of the change or phase
    :param phase: ``before`` or ``after``; ``after`` follows only a success
    :param at: seconds on the monotonic clock
    :param done: number of steps done, of a progress
    """

    kind: str
    name: str
    target: str
    phase: str
    at: float
    done: int = 0


Observer = Callable[[Event], None]

_observers: list[Observer] = []
_lock = threading.Lock()


@contextlib.contextmanager
def observe(callback: Observer) -> Iterator[None]:
    """Call ``callback`` with every event of this process while the context lasts.

    The callback runs in the thread that makes the change, so it can delay the change.
    """
    with _lock:
        _observers.append(callback)
    try:
        yield
    finally:
        with _lock:
            _observers.remove(callback)


def change(name: str, target: str) -> contextlib.AbstractContextManager[None]:
    """Send events before and after a call that changes the cluster."""
    return _observed('change', name, target)


def span(name: str, target: str) -> contextlib.AbstractContextManager[None]:
    """Send events before and after a phase of the protocol."""
    return _observed('span', name, target)


def progress(name: str, target: str, done: int) -> None:
    """Send an event with the progress of a phase."""
    if _observers:
        _send(Event('progress', name, target, 'during', time.monotonic(), done))


@contextlib.contextmanager
def _observed(kind: str, name: str, target: str) -> Iterator[None]:
    began = time.monotonic()
    _send(Event(kind, name, target, 'before', began))
    yield
    ended = time.monotonic()
    LOG.debug('%s %s took %.1f ms', name, target, (ended - began) * 1e3)
    _send(Event(kind, name, target, 'after', ended))


def _send(event: Event) -> None:
    for observer in tuple(_observers):
        observer(event)
