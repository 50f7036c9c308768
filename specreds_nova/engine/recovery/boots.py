# SPDX-License-Identifier: Apache-2.0
"""Boots of hosts: each has ended the clients of Ceph that were fenced before it.

Cinder releases those clients. Every entry of Ceph's blocklist is part of every osdmap, and lasts
for years. The engines store no boots: each engine asks every host that it hears for its boot, and
repeats the report to Cinder, because a superposition may end long after the boot. A report has the
age of the boot, not its time: Cinder compares it by the clock by which it has fenced.
"""

from collections.abc import Callable, Mapping
import dataclasses
import time

from oslo_log import log as logging

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine.clients import backups as backup_clients
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.clients import volumes as all_volumes

LOG = logging.getLogger(__name__)

# Hosts in one request to Cinder, and hosts that one call of ``look`` asks.
_TOGETHER = 200
_ASKED = 50
# Seconds between two questions to a host that does not answer.
_AGAIN = 60.0


@dataclasses.dataclass(frozen=True)
class _Boot:
    """A boot of a host.

    :param uptime: seconds that the host had been up when it answered
    :param measured: time of the question, by each clock of this process
    """

    kernel: str
    uptime: float = 0.0
    measured: tuple[float, float] = (0.0, 0.0)
    addresses: frozenset[str] = frozenset()

    def age_seconds(self, now: tuple[float, float]) -> float:
        """Return the seconds since the boot, or more.

        One clock stands still while the machine of this process is suspended, the other one may
        be set back.
        """
        return self.uptime + max(
            later - earlier for later, earlier in zip(now, self.measured, strict=True))


class Boots:
    """Reports the boots of hosts to Cinder. For use by one thread.

    :param kernels: returns which boot of each host runs that is heard
    :param interval: seconds between two reports of a boot
    :param time_of_day: returns the seconds since the epoch by the clock that may be set
    """

    def __init__(self, kernels: Callable[[], Mapping[str, str]], hosts: backup_clients.Backups,
                 volumes: all_volumes.Volumes,
                 clock: clocks.Clock, interval: float,
                 time_of_day: Callable[[], float] = time.time) -> None:
        self._kernels = kernels
        self._hosts = hosts
        self._volumes = volumes
        self._clock = clock
        self._interval = interval
        self._time_of_day = time_of_day
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
        # Before the question, so that the age is not too low however long the answer takes.
        measured = self._clocks()
        try:
            answer = self._hosts.boot(name)
        except backup_errors.ServerNotEligible as exc:
            LOG.debug('host %s cannot report its boot: %s', name, exc)
            self._boots[name] = _Boot(kernel)
        except (backup_errors.BackupError, exception.EngineError) as exc:
            LOG.debug('host %s did not report its boot, asking again later: %s', name, exc)
            self._silent[name] = measured[0]
        else:
            self._boots[name] = _Boot(str(answer['kernel']), float(answer['uptime']), measured,
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
            clocks = self._clocks()
            released = self._volumes.release([
                {'addresses': sorted(self._boots[name].addresses - shared),
                 'age_seconds': self._boots[name].age_seconds(clocks)} for name in names])
            self._reported |= dict.fromkeys(names, now)
            if released:
                LOG.info('released fenced clients %s: their hosts have booted',
                         ', '.join(released))

    def _clocks(self) -> tuple[float, float]:
        return self._clock.now(), self._time_of_day()

    def _shared(self) -> frozenset[str]:
        """Return the addresses that several hosts have: a boot of one of them proves nothing."""
        seen: set[str] = set()
        shared: set[str] = set()
        for boot in self._boots.values():
            shared |= seen & boot.addresses
            seen |= boot.addresses
        return frozenset(shared)
