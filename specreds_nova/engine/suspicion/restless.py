# SPDX-License-Identifier: Apache-2.0
"""The hosts that are not calm: only these need to be looked at all the time.

A calm host was heard within little more than an interval, and reports that all is well. There may
be 10,000 of them, of which none can become late before a time that is known: they are all looked
at again at that time, or when something unusual is heard of one.
"""

from collections.abc import Collection, Iterable
import math

from specreds_nova.engine.suspicion import settings as monitoring
from specreds_nova.engine.suspicion import watched

# Share of the silence which makes a host doubtful, up to which it is calm: all hosts are looked at
# again when the rest of it has passed, at the earliest.
_CALM = 0.7
# Seconds after which hosts that have become calm are left alone, at the latest.
_REST = 1.0
# Share of the patience with a service of a host that makes the host doubtful.
_UNEASY = 0.5


class Restless:
    """Knows the hosts that are not calm. A monitor calls it with its lock.

    Until the time ``_until`` of the listening clock, no host outside of ``_hosts`` is late or has
    reported trouble.

    :ivar libvirt: age of libvirt's latest answer, in seconds, from which a host is not calm
    :ivar storage: the same for Ceph's
    """

    def __init__(self, settings: monitoring.Settings) -> None:
        detector = settings.detector
        self._doubt = settings.doubt
        # In intervals: no host is doubtful or suspected for less silence than that.
        self._shortest = min(settings.doubt, detector.floor * detector.sigmas, detector.clip)
        self.libvirt = _UNEASY * settings.libvirt_patience
        self.storage = _UNEASY * settings.storage_patience
        self._hosts: dict[watched.Watched, None] = {}
        self._until = -math.inf

    def doubtful(self, hosts: Iterable[watched.Watched], horizon: float,
                 unheard: bool = False) -> set[watched.Watched]:
        """Return the hosts that may be suspected soon. Other parameters: :meth:`among`.

        :param unheard: also return those that were never heard
        """
        doubt = self._doubt
        return {host for host in self.among(hosts, horizon)
                if horizon - host.accrual.last > doubt * host.interval or (
                    unheard if host.beat is None else self.stalled(host))}

    def stalled(self, host: watched.Watched) -> bool:
        """Return whether the latest beat of a host reports that libvirt or Ceph is stuck."""
        beat = host.beat
        return beat is not None and not beat.leaving and (
            (beat.libvirt_age or 0.0) > self.libvirt or (beat.storage_age or 0.0) > self.storage)

    def stir(self, host: watched.Watched | None = None) -> None:
        """Have all hosts looked at again, unless a host that is not calm is known as such.

        :param host: the host of which something unusual is known; None for any
        """
        if host is None or host not in self._hosts:
            self._until = -math.inf

    def among(self, hosts: Iterable[watched.Watched], horizon: float
              ) -> Collection[watched.Watched]:
        """Return the hosts that are not calm, and perhaps a few that are, in their order.

        :param hosts: all hosts
        :param horizon: time of the listening clock
        """
        if horizon >= self._until:
            self._look(hosts, horizon)
        return self._hosts

    def _look(self, hosts: Iterable[watched.Watched], horizon: float) -> None:
        restless = self._hosts = {}
        shortest, libvirt, storage = self._shortest, self.libvirt, self.storage
        calm = _CALM * shortest
        until = horizon + _REST
        # Without a call for each host.
        for host in hosts:
            beat, last = host.beat, host.accrual.last
            if (beat is None or host.suspected or host.notable or host.doubted
                    or horizon - last > calm * host.interval
                    or (beat.libvirt_age or 0.0) > libvirt
                    or (beat.storage_age or 0.0) > storage):
                restless[host] = None
            elif (late := last + shortest * host.interval) < until:
                until = late
        self._until = until
