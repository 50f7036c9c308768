# SPDX-License-Identifier: Apache-2.0
"""The mode of each host: whether engines recover its servers, only observe, or do nothing.

Operators set modes for the cloud, for availability zones, for aggregates and for hosts. The most
specific mode counts; of several aggregates the one with the least consequence. Without any, the
mode is to observe: so begins a new installation.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.store import store as stores

# Seconds for which an engine relies on a reading of the modes.
FRESH = 0.5
# By scope: the word before the name among the places of a host.
_PLACES = {model.AGGREGATE: 'aggregate', model.ZONE: 'availability zone'}


class Modes:
    """The modes as this engine has read them. May be used by several threads.

    :param places: returns the availability zone and the aggregates of a host, in words; none for
        a host that Nova does not list, and None if they are unknown
    """

    def __init__(self, clock: clocks.Clock, store: stores.Store,
                 places: Callable[[str], Collection[str] | None] = lambda host: ()) -> None:
        self._clock = clock
        self._store = store
        self._places = places
        self._read: tuple[float, Sequence[model.Mode]] = float('-inf'), ()
        # Whether the modes are being read.
        self._reads = False

    def of(self, host: str) -> str:
        """Return the mode of a host.

        :raises exception.Unreachable: the database does not answer, or Nova has not said yet
            where the host belongs
        """
        return mode(self.known(), host, self._places(host), self._clock.wall())

    def known(self) -> Sequence[model.Mode]:
        """Return all modes.

        One recovery reads them before they are outdated, while the others rely on them: else
        thousands of recoveries would read them at once.

        :raises exception.Unreachable: the database does not answer
        """
        at, known = self._read
        now = self._clock.now()
        if now - at < (FRESH if self._reads else FRESH / 2):
            return known
        self._reads = True
        try:
            known = self._store.modes()
            # The database may have answered late.
            self._read = now, known
        finally:
            self._reads = False
        return known


def mode(known: Iterable[model.Mode], host: str, places: Collection[str] | None, now: float
         ) -> str:
    """Return the mode of a host.

    Nova lists no host that is in no availability zone: a host that it lists no more may have been
    in any of them. Of all modes that may concern such a host, the one with the least consequence
    counts.

    :param known: all modes
    :param places: availability zone and aggregates of the host, in words; none for a host that
        Nova does not list, and None if they are unknown
    :param now: in seconds since the epoch
    :raises exception.Unreachable: the mode depends on the places, which are unknown
    """
    lasting = [each for each in known if each.until is None or now < each.until]
    # Of one name, a mode that ends by itself goes first.
    brief = {(each.scope, each.name) for each in lasting if each.until is not None}
    for scope in model.SCOPES:
        here = [each for each in lasting if each.scope == scope and (
            each.until is not None or (scope, each.name) not in brief)]
        if here and scope in _PLACES and places is None:
            raise exception.Unreachable(f'Nova has not said yet in which {scope} {host} is')
        if here and scope in _PLACES and not places:
            possible = [each.mode for each in lasting if each.scope != model.HOST]
            return min([*possible, model.OBSERVE] if not _of_all(lasting) else possible,
                       key=model.MODES.index)
        wanted = [each.mode for each in here
                  if _is_of(each, host) or place(scope, each.name) in (places or ())]
        if wanted:
            return min(wanted, key=model.MODES.index)
    return model.OBSERVE


def place(scope: str, name: str) -> str | None:
    """Return an aggregate or a zone in words, as among the places of a host; None for others."""
    return f'{_PLACES[scope]} {name}' if scope in _PLACES else None


def _of_all(known: Iterable[model.Mode]) -> bool:
    """Return whether the cloud has a mode."""
    return any(each.scope == model.CLOUD for each in known)


def _is_of(known: model.Mode, host: str) -> bool:
    return known.scope == model.CLOUD or (known.scope == model.HOST and known.name == host)
