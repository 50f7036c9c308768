# SPDX-License-Identifier: Apache-2.0
"""What each kind of fault does to a cloud, and how it is mended."""

from collections.abc import Callable, Collection, Mapping
import dataclasses
import functools
from typing import Any

from specreds_nova.beats import message
from specreds_nova.engine import model
from testing.simulation import process as processes
from testing.simulation import schedule as schedules
from testing.simulation import voices
from testing.simulation import wire as wires

# Kinds of faults that cut a host off from the control plane for as long as they last.
_CONTROL = ('control', 'isolated', 'all_links', 'switch')

_Act = Callable[[schedules.Fault], Any]


class Faults:
    """Begins and mends faults.

    :param start_engine: starts a process of an engine
    """

    def __init__(self, cloud: processes.Cloud, engines: dict[str, processes.Process],
                 start_engine: Callable[[str], None]) -> None:
        self._cloud = cloud
        self._engines = engines
        self._start_engine = start_engine
        # The faults that last, as several of them may concern the same part.
        self._lasting: list[schedules.Fault] = []
        world, broker, hub = cloud.world, cloud.broker, cloud.hub
        self._begin: Mapping[str, _Act] = {
            'power': lambda fault: world.power_off(fault.target),
            'reboot': self._reboot,
            'service': self._stop_service,
            'crash_compute': lambda fault: world.stop_compute(fault.target),
            'drill': lambda fault: world.stop_compute(fault.target),
            'control': lambda fault: world.cut(fault.target, 'control'),
            'storage': lambda fault: world.cut(fault.target, 'storage'),
            'tenant': lambda fault: world.cut(fault.target, 'tenant'),
            'isolated': lambda fault: world.cut(fault.target, 'control', 'storage'),
            'all_links': lambda fault: world.cut(fault.target, 'control', 'storage', 'tenant'),
            'pause': lambda fault: world.pause(fault.target, True),
            'stands': lambda fault: world.pause(fault.target, True),
            'stall': lambda fault: world.stall_host(fault.target),
            'sentinel': lambda fault: world.run_sentinel(fault.target, False),
            'udp': lambda fault: cloud.network.lost.update({fault.target: fault.detail}),
            'farewell': self._stop_sentinel,
            'key': lambda fault: cloud.network.keys.update({fault.target: voices.FORMER}),
            'replay': lambda fault: cloud.network.replayed.add(fault.target),
            'engine_killed': lambda fault: engines[fault.target].kill(),
            'engine_frozen': lambda fault: hub.freeze(engines[fault.target].owner),
            'engine_deaf': lambda fault: broker.deaf.add((fault.target, fault.detail)),
            'engine_cut': self._cut_engine,
            'engine_without': lambda fault: cloud.services.away.add((fault.target, fault.detail)),
            'clock_jump': lambda fault: self._set_clock(fault.target, float(fault.detail)),
            'away': lambda fault: cloud.services.away.add(fault.target),
            'node': lambda fault: broker.break_node(fault.target),
            'split': lambda fault: broker.split.add(frozenset((fault.target, fault.detail))),
            'broker': self._break_all,
            'crash': lambda fault: self._on_server(world.crash, fault),
            'stop': lambda fault: self._on_server(world.stop, fault),
            'delete': lambda fault: self._on_server(world.delete, fault),
            'attach': lambda fault: self._on_server(world.attach, fault),
            'late_write': self._late_write,
            'refused_volumes': lambda fault: self._refuse_volumes(
                fault, 'its volumes cannot be superposed'),
            'overload': lambda fault: broker.overload(fault.target, float(fault.detail)),
            'forged': lambda fault: broker.forged.update({fault.target: fault.detail}),
            'busy': self._occupy, 'ceph_switch': self._cut_ceph,
            'conductor': self._lose_evacuation, 'conductor_dies': self._lose_for_ever,
            'hours': lambda fault: cloud.services.away.add(fault.target),
            'suspect': lambda fault: self._say(fault.target, word=model.SUSPECT, word_reason=''),
            'clear': lambda fault: self._say(fault.target, word=model.CLEAR, word_reason=''),
            'abort': self._abort,
            'mode': lambda fault: self._set_mode(fault, ends=False),
            'site': self._power_off_all, 'switch': self._cut_zone, 'flapping': self._break_link,
        } | dict.fromkeys(('slow', 'lost', 'late', 'twice', 'refused'), self._trouble)
        self._end: Mapping[str, _Act] = {
            'power': self._boot, 'reboot': self._boot,
            'service': self._start_compute, 'crash_compute': self._start_compute,
            'drill': self._start_compute,
            'control': lambda fault: self._mend(fault, 'control'),
            'storage': lambda fault: self._mend(fault, 'storage'),
            'tenant': lambda fault: self._mend(fault, 'tenant'),
            'isolated': lambda fault: self._mend(fault, 'control', 'storage'),
            'all_links': lambda fault: self._mend(fault, 'control', 'storage', 'tenant'),
            'pause': lambda fault: world.pause(fault.target, False),
            'stands': lambda fault: world.pause(fault.target, False),
            'stall': lambda fault: world.resume_host(fault.target),
            'sentinel': lambda fault: world.run_sentinel(fault.target, True),
            'udp': lambda fault: cloud.network.lost.pop(fault.target, None),
            'farewell': lambda fault: world.run_sentinel(fault.target, True),
            'key': lambda fault: cloud.network.keys.pop(fault.target, None),
            'replay': lambda fault: cloud.network.replayed.discard(fault.target),
            'engine_killed': lambda fault: start_engine(fault.target),
            'engine_frozen': self._thaw,
            'engine_deaf': lambda fault: broker.deaf.discard((fault.target, fault.detail)),
            'engine_cut': self._mend_engine,
            'engine_without': lambda fault: cloud.services.away.discard(
                (fault.target, fault.detail)),
            'clock_jump': lambda fault: self._set_clock(fault.target, None),
            'away': lambda fault: cloud.services.away.discard(fault.target),
            'hours': lambda fault: cloud.services.away.discard(fault.target),
            'node': lambda fault: broker.mend_node(fault.target),
            'split': lambda fault: broker.split.discard(frozenset((fault.target, fault.detail))),
            'broker': self._mend_all,
            'refused_volumes': lambda fault: self._refuse_volumes(fault, ''),
            'overload': lambda fault: broker.overload(fault.target, 0.0),
            'forged': lambda fault: broker.forged.pop(fault.target, None),
            'busy': self._leave,
            'suspect': lambda fault: self._say(fault.target, word=None, word_reason=None),
            'clear': lambda fault: self._say(fault.target, word=None, word_reason=None),
            'mode': lambda fault: self._set_mode(fault, ends=True),
            'site': self._boot_all, 'switch': self._mend_zone,
            'flapping': self._mend_link,
        } | dict.fromkeys(('slow', 'lost', 'late', 'twice', 'refused'), self._untrouble)

    def begin(self, fault: schedules.Fault) -> None:
        """Begin a fault."""
        self._lasting.append(fault)
        self._begin[fault.kind](fault)

    def end(self, fault: schedules.Fault) -> None:
        """Mend a fault, unless another one of its kind lasts."""
        self._lasting.remove(fault)
        same = any((other.kind, other.target, other.detail)
                   == (fault.kind, fault.target, fault.detail) for other in self._lasting)
        if fault.kind in self._end and not same:
            self._end[fault.kind](fault)

    def _break_all(self, fault: schedules.Fault) -> None:
        del fault
        for node in self._cloud.broker.nodes:
            self._cloud.broker.break_node(node)

    def _mend_all(self, fault: schedules.Fault) -> None:
        del fault
        for node in self._cloud.broker.nodes:
            self._cloud.broker.mend_node(node)

    def _on_server(self, act: Callable[[str], None], fault: schedules.Fault) -> None:
        if fault.target in self._cloud.world.servers:
            act(fault.target)

    # Hosts

    def _reboot(self, fault: schedules.Fault) -> None:
        # What engines know before the goodbye, which they hear at once.
        in_order = self._in_order(fault.target)
        if self._cloud.world.hosts[fault.target].reached:
            self._cloud.broker.say_goodbye(fault.target, message.SYSTEM)
        self._cloud.network.say_goodbye(fault.target)
        self._cloud.world.power_off(fault.target, in_order)

    def _in_order(self, host: str) -> set[str]:
        """Return the servers of a host that its operator shuts down in good order.

        There are none if an engine suspects the host, and has to recover them.
        """
        if any(engine.suspects(host) for engine in self._engines.values()):
            return set()
        return {server.name for server in self._cloud.world.servers.values()
                if server.host == host}

    def _stop_service(self, fault: schedules.Fault) -> None:
        host = self._cloud.world.hosts[fault.target]
        if host.reached:
            self._cloud.broker.say_goodbye(fault.target, message.SERVICE)
        self._cloud.world.stop_compute(fault.target)

    def _stop_sentinel(self, fault: schedules.Fault) -> None:
        self._cloud.network.say_goodbye(fault.target)
        self._cloud.world.run_sentinel(fault.target, False)

    def _boot(self, fault: schedules.Fault) -> None:
        if not self._lasts(fault.target, 'power', 'reboot', 'site'):
            self._cloud.world.power_on(fault.target)

    def _power_off_all(self, fault: schedules.Fault) -> None:
        del fault
        for host in self._cloud.world.hosts:
            self._cloud.world.power_off(host)

    def _boot_all(self, fault: schedules.Fault) -> None:
        """Boot all hosts one after the other, the one with the servers last."""
        for number, host in enumerate(reversed(self._cloud.world.hosts)):
            self._cloud.hub.call(number * float(fault.detail), functools.partial(
                self._boot, dataclasses.replace(fault, target=host)))

    def _start_compute(self, fault: schedules.Fault) -> None:
        if not self._lasts(fault.target, 'service', 'crash_compute', 'drill', 'power', 'reboot',
                           'site'):
            self._cloud.world.start_compute(fault.target)

    def _mend(self, fault: schedules.Fault, *links: str) -> None:
        cuts = {'control': _CONTROL,
                'storage': ('storage', 'isolated', 'all_links'), 'tenant': ('tenant', 'all_links')}
        self._cloud.world.mend(fault.target, *(
            link for link in links if not self._lasts(fault.target, *cuts[link])))

    def _cut_zone(self, fault: schedules.Fault) -> None:
        for host in self._zone(fault.target):
            self._cloud.world.cut(host, 'control')

    def _cut_ceph(self, fault: schedules.Fault) -> None:
        for host in self._zone(fault.target):
            self._cloud.world.cut(host, 'storage')

    def _mend_zone(self, fault: schedules.Fault) -> None:
        for host in self._zone(fault.target):
            self._mend(dataclasses.replace(fault, target=host), 'control')

    def _zone(self, zone: str) -> list[str]:
        return [host for host, places in self._cloud.world.places.items()
                if places[0].endswith(f' {zone}')]

    def _break_link(self, fault: schedules.Fault) -> None:
        """Cut a host off from the control plane, and do so again and again."""
        if fault in self._lasting:
            self._cloud.world.cut(fault.target, 'control')
            self._cloud.hub.call(schedules.BROKEN, lambda: self._mend_link(fault))
            self._cloud.hub.call(schedules.BROKEN + schedules.WORKS,
                                 lambda: self._break_link(fault))

    def _mend_link(self, fault: schedules.Fault) -> None:
        if not self._lasts(fault.target, *_CONTROL):
            self._cloud.world.mend(fault.target, 'control')

    def _lasts(self, target: str, *kinds: str) -> bool:
        return any(target in self._concerned(fault) and fault.kind in kinds
                   for fault in self._lasting)

    def _concerned(self, fault: schedules.Fault) -> Collection[str]:
        """Return the hosts that a fault concerns, beside its target."""
        if fault.kind == schedules.SITE:
            return self._cloud.world.hosts
        return self._zone(fault.target) if fault.kind == schedules.SWITCH else (fault.target,)

    # Engines

    def _cut_engine(self, fault: schedules.Fault) -> None:
        self._cloud.broker.cut.add(fault.target)
        self._cloud.services.away.update((fault.target, service) for service in _SERVICES)

    def _mend_engine(self, fault: schedules.Fault) -> None:
        self._cloud.broker.cut.discard(fault.target)
        self._cloud.services.away.difference_update(
            (fault.target, service) for service in _SERVICES)

    def _thaw(self, fault: schedules.Fault) -> None:
        self._cloud.hub.thaw(self._engines[fault.target].owner)
        self._cloud.broker.thaw(fault.target)

    def _set_clock(self, engine: str, ahead: float | None) -> None:
        """Set the system clock of an engine, also for its later processes.

        :param ahead: seconds that it is ahead of the time; None for as much as at first
        """
        if ahead is None:
            self._cloud.ahead.pop(engine, None)
        else:
            self._cloud.ahead[engine] = ahead
        self._engines[engine].set_clock()

    # Services

    def _trouble(self, fault: schedules.Fault) -> None:
        share = float(fault.detail)
        trouble = wires.Trouble(slow=100.0 * share) if fault.kind == 'slow' else \
            wires.Trouble(**{fault.kind: share})
        self._cloud.services.troubles.setdefault(fault.target, []).append(trouble)

    def _untrouble(self, fault: schedules.Fault) -> None:
        self._cloud.services.troubles[fault.target].pop()

    # Servers and operators

    def _late_write(self, fault: schedules.Fault) -> None:
        server = self._cloud.world.servers.get(fault.target)
        if server is not None:
            server.late += 1

    def _lose_evacuation(self, fault: schedules.Fault) -> None:
        server = self._cloud.world.servers.get(fault.target)
        if server is not None:
            server.lost += 1

    def _occupy(self, fault: schedules.Fault) -> None:
        server = self._cloud.world.servers.get(fault.target)
        if server is not None and server.task is None and server.status == 'ACTIVE':
            server.status, _, task = fault.detail.partition(' ')
            server.task = task or None

    def _leave(self, fault: schedules.Fault) -> None:
        """Make a server active again, as an operator would."""
        server = self._cloud.world.servers.get(fault.target)
        status, _, task = fault.detail.partition(' ')
        if server is not None and (server.status, server.task) == (status, task or None):
            server.status, server.task = 'ACTIVE', None

    def _lose_for_ever(self, fault: schedules.Fault) -> None:
        server = self._cloud.world.servers.get(fault.target)
        if server is not None and server.lost == 0:
            server.lost = -1

    def _refuse_volumes(self, fault: schedules.Fault, why: str) -> None:
        server = self._cloud.world.servers.get(fault.target)
        if server is not None:
            server.refused = why

    def _say(self, host: str, **values: Any) -> None:
        store = self._cloud.store
        if 'word' in values:
            self._cloud.world.spoken[host] = self._cloud.hub.now()
        store.change_host(store.host(host), **values)

    def _set_mode(self, fault: schedules.Fault, *, ends: bool) -> None:
        cloud = self._cloud
        cloud.world.restrained[fault.target] = cloud.hub.now()
        if ends:
            cloud.store.unset_mode(model.HOST, fault.target)
        else:
            # Half of them only observe.
            mode = model.OBSERVE if int(10 * fault.lasts) % 2 else model.PAUSE
            cloud.store.set_mode(model.Mode(
                model.HOST, fault.target, mode, 'a test', '', cloud.hub.now()))

    def _abort(self, fault: schedules.Fault) -> None:
        for recovery in self._cloud.store.active():
            if (recovery.server == fault.target
                    and self._cloud.store.request_abort(recovery.id, 'a user')):
                self._cloud.world.aborted.setdefault(recovery.id, self._cloud.hub.now())


_SERVICES = ('nova', 'cinder', 'host', 'store')
