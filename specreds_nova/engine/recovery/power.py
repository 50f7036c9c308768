# SPDX-License-Identifier: Apache-2.0
"""Power-off of fenced hosts by Redfish, after the commit point and asynchronous.

Nothing depends on it: storage has decided before, and the sentinel of the host ends the servers
that were promoted elsewhere, or hides them. A host whose sentinel does not run, and that nobody
hears, may still show them to tenants. It is off by default.

The controller of a suspected host is asked as well. If it says twice that the host is off, the
host is dead as a fact (:mod:`death`).
"""

from collections.abc import Iterator, Mapping
from concurrent import futures
import contextlib
import importlib
from typing import Any
from urllib import parse

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import context as contexts

LOG = logging.getLogger(__name__)

# Kind of the note among the evidence against a host, of which each fenced host has one at most.
POWER = 'power'
# Seconds between two attempts to power a host off.
_AGAIN = 60.0
# Seconds that the controller of a host may take to answer.
_CONNECT, _ANSWER = 5.0, 20.0
_HOSTS_AT_ONCE = 8
# Recoveries of a host that are read to find the recoveries of its servers.
_MANY = 1000
# Outcomes of recoveries after which the server does not run on its former host.
_ELSEWHERE = frozenset({model.RECOVERED, model.RESTARTED, model.EVACUATED})


class Redfish:
    """Systems whose controllers speak Redfish.

    :param options: group ``[engine]``
    :raises exception.Invalid: the library for Redfish is not installed
    """

    def __init__(self, options: Any) -> None:
        self._urls: Mapping[str, str] = options.redfish_systems
        self._sushy: Any = None
        if self._urls:
            try:
                self._sushy = importlib.import_module('sushy')
            except ImportError as exc:
                raise exception.Invalid(
                    '[engine] redfish_systems needs sushy: install specreds[redfish]') from exc

    def known(self, host: str) -> bool:
        """Return whether a host can be powered off."""
        return host in self._urls

    def power_off(self, host: str) -> None:
        """Power a host off, unless it is off.

        :raises exception.Unreachable: it cannot be done now
        """
        with self._system(host) as system:
            if system.power_state != self._sushy.PowerState.OFF:
                system.reset_system(self._sushy.ResetType.FORCE_OFF)

    def is_off(self, host: str) -> bool:
        """Return whether a host is off.

        :raises exception.Unreachable: its controller does not answer
        """
        with self._system(host) as system:
            return bool(system.power_state == self._sushy.PowerState.OFF)

    @contextlib.contextmanager
    def _system(self, host: str) -> Iterator[Any]:
        url = parse.urlsplit(self._urls[host])
        username, password = (part and parse.unquote(part)
                              for part in (url.username, url.password))
        try:
            service = self._sushy.Sushy(
                f'{url.scheme}://{url.netloc.rpartition("@")[2]}', username, password,
                verify=True, server_side_retries=0,
                connect_timeout=_CONNECT, read_timeout=_ANSWER)
            yield service.get_system(url.path)
        except (self._sushy.exceptions.SushyError, OSError) as exc:
            raise exception.Unreachable(f'the controller of {host}: {exc}') from exc


class PowerOff:
    """Powers off the fenced hosts that nobody hears and that run nothing else.

    It also finds out which suspected hosts are off.

    :param engine: name of this engine
    """

    def __init__(self, context: contexts.Context, systems: Redfish, engine: str) -> None:
        self._context = context
        self._systems = systems
        self._engine = engine
        self._pool = futures.ThreadPoolExecutor(_HOSTS_AT_ONCE, 'power-off')
        # By host: the suspicion, and the time at which this engine first saw it fenced.
        self._fenced: dict[str, tuple[float, float]] = {}
        # By host: the suspicion, and the time before its controller has said first that it is off.
        self._off: dict[str, tuple[float, float]] = {}
        self._asking: dict[str, futures.Future[None]] = {}

    def look(self) -> list[futures.Future[None]]:
        """Begin to power off the hosts for which that is due, and ask about others.

        :raises exception.Unreachable: the database does not answer
        """
        hosts = self._context.store.notable_hosts()
        begun = [self._pool.submit(self._power_off, claimed) for host in hosts
                 if (claimed := self._claimed(host)) is not None]
        for host in hosts:
            before = self._asking.get(host.name)
            if self._silent(host) and (before is None or before.done()):
                self._asking[host.name] = self._pool.submit(self._ask, host)
                begun.append(self._asking[host.name])
        return begun

    def _silent(self, host: model.Host) -> bool:
        """Return whether a host is suspected and not heard, and may be dead.

        What was said before this suspicion may be of an earlier death.
        """
        return (host.state == model.SUSPECTED
                and (host.dead_at is None or host.dead_at < host.since)
                and self._systems.known(host.name)
                and self._unheard(host.name))

    def _unheard(self, host: str) -> bool:
        return (not self._context.suspects.is_well(host)
                and self._context.suspects.suspected(host))

    def _ask(self, host: model.Host) -> None:
        """Record that a host is dead if its controller says a second time that it is off."""
        now = host.since, self._context.clock.wall()
        try:
            if not self._systems.is_off(host.name):
                self._off.pop(host.name, None)
                return
            first = self._off.setdefault(host.name, now)
            if first[0] != host.since:
                self._off[host.name] = now
            elif first != now and first[1] != host.dead_at:
                # It does not say so for a moment, as during a reset. Another change goes first.
                self._context.store.change_host(host, dead_at=first[1])
                LOG.warning('host %s is off', host.name)
        except exception.EngineError as exc:
            LOG.info('nobody knows whether host %s is off: %s', host.name, exc)
        except Exception:
            LOG.exception('nobody knows whether host %s is off', host.name)

    def _claimed(self, host: model.Host) -> model.Host | None:
        """Record that a host is being powered off if that is due; return None if it is not.

        What cannot be found out about one host holds no other one up.
        """
        try:
            return self._note(host, 'begun') if self._due(host) else None
        except exception.EngineError as exc:
            LOG.warning('host %s is powered off later: %s', host.name, exc)
            return None

    def close(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _due(self, host: model.Host) -> bool:
        if host.state != model.FENCED or not self._systems.known(host.name):
            self._fenced.pop(host.name, None)
            return False
        now = self._context.clock.now()
        if self._fenced.get(host.name, (None,))[0] != host.since:
            self._fenced[host.name] = host.since, now
        if now - self._fenced[host.name][1] < self._context.settings.power_off_after:
            return False
        noted = _noted(host)
        if noted and (noted['state'] == 'done' or self._context.age(noted['at']) < _AGAIN):
            return False
        return self._dead(host) and self._empty(host)

    def _dead(self, host: model.Host) -> bool:
        """Return whether a host is fenced and not heard, and operators leave it to engines."""
        return (host.state == model.FENCED and host.word != model.CLEAR
                and self._context.modes.of(host.name) == model.ACT
                and self._unheard(host.name))

    def _empty(self, host: model.Host) -> bool:
        """Return whether all servers of a host run elsewhere, or are stopped."""
        latest: dict[str, model.Recovery] = {}
        for recovery in self._context.store.recoveries({'host': host.name}, _MANY):
            if recovery.created >= host.since:
                latest.setdefault(recovery.server, recovery)
        return all(server.status == 'SHUTOFF' or _elsewhere(latest.get(server.id))
                   for server in self._context.compute.servers(host.name))

    def _note(self, host: model.Host, state: str) -> model.Host | None:
        """Record the power-off with the evidence; return None if another engine was faster."""
        words = f'powered off by {self._engine}' if state == 'done' else \
            f'{self._engine} powers it off'
        why = [fact for fact in host.why if fact.get('kind') != POWER]
        note = {'kind': POWER, 'words': words, 'at': self._context.clock.wall(), 'state': state}
        return self._context.store.change_host(host, why=(*why, note))

    def _power_off(self, host: model.Host) -> None:
        try:
            # The controllers of other hosts may have been slow.
            if not self._dead(self._context.store.host(host.name)):
                return
            self._systems.power_off(host.name)
            LOG.warning('host %s is powered off: its servers run elsewhere, and it is not heard',
                        host.name)
            self._note(self._context.store.host(host.name), 'done')
        except exception.EngineError as exc:
            LOG.warning('host %s is not powered off, which is tried again: %s', host.name, exc)
        except Exception:
            LOG.exception('host %s is not powered off', host.name)


def _noted(host: model.Host) -> Mapping[str, Any]:
    return next((fact for fact in host.why if fact.get('kind') == POWER), {})


def _elsewhere(recovery: model.Recovery | None) -> bool:
    """Return whether a recovery is past the commit point, so that its primary is fenced."""
    if recovery is None:
        return False
    if recovery.state == model.ENDED:
        return recovery.outcome in _ELSEWHERE
    return recovery.state not in model.BEFORE_COMMIT
