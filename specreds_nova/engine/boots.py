# SPDX-License-Identifier: Apache-2.0
"""Boots of hosts: each has ended the clients of Ceph that were fenced before it.

Cinder releases those clients. Every entry of Ceph's blocklist is part of every osdmap, and lasts
for years. The engines store no boots: each engine asks every host that it hears for its boot, and
repeats the report to Cinder, because a superposition may end long after the boot.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import datetime
from typing import Any, Protocol

from oslo_config import cfg
from oslo_log import log as logging

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import interfaces

LOG = logging.getLogger(__name__)

# Hosts in one request to Cinder, and hosts that one call of ``look`` asks.
_TOGETHER = 200
_ASKED = 50
# Seconds between two questions to a host that does not answer.
_AGAIN = 60.0

OPTIONS: list[cfg.Opt] = [
    cfg.FloatOpt('release_interval', default=0.0, min=0.0,
                 help="Seconds between two requests to Cinder to remove the entries of Ceph's "
                      'blocklist that were made before the latest boot of their host, for '
                      'example 600; the first one follows within seconds of the boot. 0 disables '
                      'it. Enable it only if the clocks of all engines, from their start on, and '
                      'of the volume services agree within a minute, no compute host translates '
                      'the addresses of other hosts that use Ceph, and no host gets the address '
                      'of another one that may still run: otherwise a fenced client that lives '
                      'could write again.'),
]


class Hosts(Protocol):
    """Questions to hosts."""

    def boot(self, host: str) -> Mapping[str, Any]:
        """Return which boot of a host runs, for how long, and the addresses of the host."""


class Volumes(Protocol):
    """Requests to Cinder."""

    def release(self, boots: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Release the fenced clients that boots of their hosts have ended; return them."""


@dataclasses.dataclass(frozen=True)
class _Boot:
    """A boot of a host.

    :param booted_at: time in seconds since the epoch, not later than the boot
    """

    kernel: str
    booted_at: float = 0.0
    addresses: frozenset[str] = frozenset()


class Boots:
    """Reports the boots of hosts to Cinder. For use by one thread.

    :param kernels: returns which boot of each host runs that is heard
    :param interval: seconds between two reports of a boot
    """

    def __init__(self, kernels: Callable[[], Mapping[str, str]], hosts: Hosts, volumes: Volumes,
                 clock: interfaces.Clock, interval: float) -> None:
        self._kernels = kernels
        self._hosts = hosts
        self._volumes = volumes
        self._clock = clock
        self._interval = interval
        self._boots: dict[str, _Boot] = {}
        self._reported: dict[str, float] = {}
        self._silent: dict[str, float] = {}

    def look(self) -> None:
        """Ask the hosts that have booted, and report to Cinder what is due.

        :raises exception.EngineError: Cinder does not answer; the reports are repeated
        """
        kernels = self._kernels()
        for known in (self._boots, self._reported, self._silent):
            for name in known.keys() - kernels.keys():
                del known[name]
        now = self._clock.now()
        booted = [name for name, kernel in kernels.items()
                  if (name not in self._boots or self._boots[name].kernel != kernel)
                  and now - self._silent.get(name, float('-inf')) >= _AGAIN]
        for name in booted[:_ASKED]:
            self._ask(name, kernels[name])
        # A host that was not asked yet may have an address of another one.
        if len(booted) <= _ASKED:
            self._report()

    def _ask(self, name: str, kernel: str) -> None:
        # Before the question, so that the time is not later than the boot however long it takes.
        now = self._clock.now()
        try:
            answer = self._hosts.boot(name)
        except backup_errors.ServerNotEligible as exc:
            LOG.debug('host %s cannot report its boot: %s', name, exc)
            self._boots[name] = _Boot(kernel)
        except (backup_errors.BackupError, exception.EngineError) as exc:
            LOG.debug('host %s did not report its boot, asking again later: %s', name, exc)
            self._silent[name] = now
        else:
            self._boots[name] = _Boot(str(answer['kernel']), now - float(answer['uptime']),
                                      frozenset(answer['addresses']))
            self._reported.pop(name, None)
            self._silent.pop(name, None)

    def _report(self) -> None:
        now = self._clock.now()
        shared = self._shared()
        due = [name for name, boot in self._boots.items() if boot.addresses - shared
               and now - self._reported.get(name, float('-inf')) >= self._interval]
        for first in range(0, len(due), _TOGETHER):
            names = due[first:first + _TOGETHER]
            released = self._volumes.release([
                {'addresses': sorted(self._boots[name].addresses - shared),
                 'booted_at': _iso(self._boots[name].booted_at)} for name in names])
            self._reported |= dict.fromkeys(names, now)
            if released:
                LOG.info('released fenced clients %s: their hosts have booted',
                         ', '.join(released))

    def _shared(self) -> frozenset[str]:
        """Return the addresses that several hosts have: a boot of one of them proves nothing."""
        seen: set[str] = set()
        shared: set[str] = set()
        for boot in self._boots.values():
            shared |= seen & boot.addresses
            seen |= boot.addresses
        return frozenset(shared)


def _iso(moment: float) -> str:
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).isoformat()
