# SPDX-License-Identifier: Apache-2.0
"""Hosts that this engine takes for dead, and about which a gate keeps it from doing anything.

Operators are told: all engines write it down, seldom, as the reasons of two of them may differ.
"""

from collections.abc import Callable, Iterable
import dataclasses

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import interfaces

LOG = logging.getLogger(__name__)

# Seconds after which it is written down: another engine may act at this very moment.
_SOON = 1.0
# Seconds between two times, for the same host.
_SELDOM = 10.0


@dataclasses.dataclass
class _Held:
    since: float
    reasons: list[str]
    written: float = float('-inf')


class Holding:
    """What is held back. For one thread.

    :param write: writes the reasons of a host down
    """

    def __init__(self, clock: interfaces.Clock,
                 write: Callable[[str, Iterable[str]], None]) -> None:
        self._clock = clock
        self._write = write
        self._held: dict[str, _Held] = {}

    def names(self) -> list[str]:
        """Return the hosts that are to be asked about again."""
        return list(self._held)

    def keep(self, name: str, reasons: list[str]) -> None:
        """Note why nothing is done about a host."""
        now = self._clock.now()
        held = self._held.get(name)
        if held is None or held.reasons != reasons:
            LOG.warning('nothing is done about host %s: %s', name, '; '.join(reasons))
            held = self._held[name] = _Held(
                held.since if held else now, reasons, held.written if held else float('-inf'))
        if now - held.since < _SOON or now - held.written < _SELDOM:
            return
        try:
            self._write(name, reasons)
            held.written = now
        except exception.EngineError as exc:
            LOG.warning('host %s: it is not written down why nothing is done: %s', name, exc)

    def release(self, name: str) -> None:
        """Forget a host about which something is done, or that is not suspected any more."""
        self._held.pop(name, None)
