# SPDX-License-Identifier: Apache-2.0
"""Recoveries that are created although the silence of hosts has a likelier cause than their end.

A switch, a broker node or the power of a site takes many hosts away at once, and a bad link takes
one host away again and again: engines have to wait. Each case is judged by the beats of both
voices that the engine has received and by the boots of hosts, and only while all services answer
at once, because a recovery that was begun in time may be created late.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from specreds_nova.engine import model
from specreds_nova.engine.suspicion import evidence
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import settings as monitoring
from testing.simulation import broker as brokers
from testing.simulation import hub as hubs
from testing.simulation import voices
from testing.simulation import wire as wires
from testing.simulation import world as worlds

# Seconds between the latest beats of hosts that are surely silent for as long.
_TOGETHER = 1.0
# Seconds without a beat after which a host is silent, and for which it may count as heard.
_SILENT, _HEARD = 3.0, 40.0
# Seconds of beats without a gap after which a host is no longer suspected.
_UNBROKEN = 15.0
# Seconds by which an engine may be wrong about the length of a silence, and about a boot.
_WRONG, _LATE = 0.25, 5.0


class Silence:
    """The hosts as each process of an engine hears them.

    :param engines: the latest process of each engine, by name
    :param options: of all engines
    :param network: the voices of sentinels
    """

    def __init__(self, hub: hubs.Hub, world: worlds.World, broker: brokers.Broker,
                 services: wires.Services, engines: Mapping[str, Any], options: Any,
                 network: voices.Network) -> None:
        self._hub = hub
        self._world = world
        self._broker = broker
        self._services = services
        self._engines = engines
        self._options = options
        self._network = network

    def check_creation(self, recovery: model.Recovery) -> None:
        """Record a recovery of a silent host that is created too early."""
        process = next((process for process in self._engines.values()
                        if process.owner == self._hub.owner), None)
        kinds = {fact.get('kind') for fact in recovery.why}
        if process is None or process.engine is None or kinds != {evidence.SILENCE} or (
                self._services.troubled()):
            return
        heard = {name: self._broker.heard[process.owner, name] for name in self._world.hosts
                 if (process.owner, name) in self._broker.heard}
        now = self._hub.now()
        if now - heard.get(recovery.host, 0.0) < brokers.GAP and (
                now - self._broker.unbroken[process.owner, recovery.host] > _UNBROKEN):
            self._world.fail(f'a recovery of {recovery.server} is created although the beats of '
                             f'{recovery.host} come without a gap')
        # A host whose sentinel is heard has not fallen silent.
        heard = {name: max(at, self._network.last(process.owner, name))
                 for name, at in heard.items()}
        if now - heard.get(recovery.host, now) < _SILENT:
            return
        for reason in self._reasons(process.engine._monitor, process.owner, recovery.host, heard):
            self._world.fail(f'a recovery of {recovery.server} is created although {reason}')

    def _reasons(self, monitor: Any, owner: str, host: str, heard: Mapping[str, float]
                 ) -> Iterator[str]:
        """Yield the likelier causes of a silence.

        :param monitor: monitor of the engine that does not heed them
        :param heard: by host: when the engine has received its latest beat
        """
        now, last = self._hub.now(), heard[host]
        known = {name for name in heard if now - heard[name] < _HEARD}
        silent = {name for name in known if abs(heard[name] - last) <= _TOGETHER
                  and (name == host or not self._world.farewells.get(name, 0.0) >= heard[name])}
        if self._many(silent, known):
            yield f'{len(silent)} of {len(known)} hosts fell silent together'
        places = {name: monitor._hosts[name].places or () for name in known
                  if name in monitor._hosts}
        for place in places.get(host, ()):
            members = {name for name in places if place in places[name]}
            if members != known and self._many(silent & members, members) and (
                    now - last < gates.CORRELATED_S - _WRONG):
                yield f'most hosts of {place} fell silent together {now - last:.1f} s ago'
        heard_now = {name for name in known - {host} if now - heard[name] < _SILENT}
        booted = [name for name in heard_now if self._booted(owner, name, last)]
        if heard_now and len(booted) > len(known - {host}) // 2:
            yield f'{", ".join(sorted(booted))} have booted since {host} was heard'
        flaps = monitor.look(host).flaps
        if 0 < self._options.flap_count <= flaps and (
                now - last < gates.FLAPPING_S - _LATE):
            yield (f'{host} was wrongly suspected {flaps} times, and is silent for '
                   f'{now - last:.1f} s')

    def _many(self, silent: Collection[str], of: Collection[str]) -> bool:
        """Return whether so many hosts are silent that they hardly have failed all at once."""
        return bool(len(silent) >= gates.SEVERAL
                    and len(silent) > self._options.too_many_share * len(of))

    def _booted(self, owner: str, name: str, since: float) -> bool:
        """Return whether an engine has to know that a host has booted since a time."""
        booted, now = self._world.hosts[name].booted, self._hub.now()
        known = self._broker.told.get((owner, name), float('-inf'))
        return bool(since < booted < known < now - _TOGETHER
                    and now - booted < monitoring.Settings.power_up_grace - _LATE)
