# SPDX-License-Identifier: Apache-2.0
"""Announces every change the protocol makes to the cluster, and how long each phase takes.

Whoever shows progress, measures, or kills the process at an awkward moment listens here.
"""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import logging
import threading
import time

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Event:
    """One moment of a change or of a span.

    :param kind: ``change`` (something in the cluster is altered), ``span`` (a phase) or
        ``progress`` (of a phase that may be long)
    :param name: what happens, for example ``record.create`` or ``sweep``
    :param target: the object it happens to
    :param phase: ``before`` or ``after``; an ``after`` comes only if it succeeded
    :param at: seconds on the monotonic clock
    :param done: of a progress: how many steps are behind it
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

    The callback runs in the thread that makes the change, so it can also delay it.
    """
    with _lock:
        _observers.append(callback)
    try:
        yield
    finally:
        with _lock:
            _observers.remove(callback)


def change(name: str, target: str) -> contextlib.AbstractContextManager[None]:
    """Wrap one call that alters the cluster."""
    return _announced('change', name, target)


def span(name: str, target: str) -> contextlib.AbstractContextManager[None]:
    """Wrap one phase of the protocol."""
    return _announced('span', name, target)


def progress(name: str, target: str, done: int) -> None:
    """Say how far a phase has come."""
    if _observers:
        _tell(Event('progress', name, target, 'during', time.monotonic(), done))


@contextlib.contextmanager
def _announced(kind: str, name: str, target: str) -> Iterator[None]:
    began = time.monotonic()
    _tell(Event(kind, name, target, 'before', began))
    yield
    ended = time.monotonic()
    LOG.debug('%s %s took %.1f ms', name, target, (ended - began) * 1e3)
    _tell(Event(kind, name, target, 'after', ended))


def _tell(event: Event) -> None:
    for observer in tuple(_observers):
        observer(event)
