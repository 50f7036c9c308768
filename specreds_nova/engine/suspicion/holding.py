# SPDX-License-Identifier: Apache-2.0
"""Suspected hosts whose recoveries are held back by gates.

Operators see the reasons: all engines record them, but seldom, because their reasons may differ.
"""

from collections.abc import Callable, Iterable, Mapping
import dataclasses

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine.clients import clock as clocks

LOG = logging.getLogger(__name__)

# Seconds after which the reasons are recorded: another engine may be about to act.
_SOON = 1.0
# Seconds between two records for the same host.
_SELDOM = 10.0
# Hosts that are named in the log, and recorded, at a time: when a whole site is silent, the engine
# and its database have more urgent things to do.
_NAMED = 20


@dataclasses.dataclass
class _Held:
    since: float
    reasons: list[str]
    written: float = float('-inf')


class Holding:
    """The hosts that are held back. For use by one thread.

    :param write: records the reasons of a host
    """

    def __init__(self, clock: clocks.Clock,
                 write: Callable[[str, Iterable[str]], None]) -> None:
        self._clock = clock
        self._write = write
        self._held: dict[str, _Held] = {}

    def names(self) -> list[str]:
        """Return the hosts whose gates have to be examined again."""
        return list(self._held)

    def keep(self, name: str, reasons: list[str]) -> None:
        """Note the reasons that hold the recoveries of a host back."""
        self.keep_all({name: reasons})

    def keep_all(self, all_reasons: Mapping[str, list[str]]) -> None:
        """Note the reasons that hold the recoveries of hosts back."""
        now = self._clock.now()
        new, due = [], []
        for name, reasons in all_reasons.items():
            held = self._held.get(name)
            if held is None or held.reasons != reasons:
                new.append(name)
                held = self._held[name] = _Held(
                    held.since if held else now, reasons, held.written if held else float('-inf'))
            if now - held.since >= _SOON and now - held.written >= _SELDOM:
                due.append(name)
        for name in new[:_NAMED]:
            LOG.warning('host %s seems to have failed, but is held back: %s', name,
                        '; '.join(self._held[name].reasons))
        if len(new) > _NAMED:
            LOG.warning('%d other hosts seem to have failed, but are held back as well',
                        len(new) - _NAMED)
        for name in due[:_NAMED]:
            self._record(name, now)

    def _record(self, name: str, now: float) -> None:
        held = self._held[name]
        try:
            self._write(name, held.reasons)
            held.written = now
        except exception.EngineError as exc:
            LOG.warning('host %s: the reasons that hold it back are not recorded: %s', name, exc)

    def release(self, name: str) -> None:
        """Forget a host that is being recovered, or that is not suspected."""
        self._held.pop(name, None)
