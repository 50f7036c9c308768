# SPDX-License-Identifier: Apache-2.0
"""Recoveries for the servers of suspected hosts, and for servers that have crashed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
import contextlib
import dataclasses
import functools
from typing import Any
import uuid

from oslo_log import log as logging

from specreds_nova import protected
from specreds_nova import tasks
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.placing import conductor as conductors
from specreds_nova.engine.placing import kinds
from specreds_nova.engine.placing import order
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import left
from specreds_nova.engine.recovery import nova_prefetch
from specreds_nova.engine.recovery import pending
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery.steps import refused
from specreds_nova.engine.recovery.steps import restart
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import servers
from specreds_nova.engine.suspicion import settings as monitoring

LOG = logging.getLogger(__name__)

# Seconds between two recoveries of the same server, at most: a host that was cut off for long may
# die at any moment.
_SELDOM = 300.0
# Former recoveries of a server that are read to find out how often it was recovered.
_MANY = 12
# Seconds within which reports of a crash are taken for the same crash.
_TOLD = 15.0
# Seconds after which a user may have started a server again that had crashed, and its guest may
# have ended once more, as its user wanted. Seconds by which Nova may have noted the crash earlier.
_OLD, _EARLIER = 900.0, 60.0
# Outcomes after which nothing is left to do for a server.
_MOVED = (model.RECOVERED, model.EVACUATED, model.RESTARTED)
# Seconds after a failed evacuation for which its server counts as at rest: a host may be back and
# die again within them, but a user has hardly started the server there.
_OWED = 3600.0
# How long to cache a refusal that is based on Nova's answer, in seconds.
_HELD = 2.0

Why = Sequence[Mapping[str, Any]]
# Returns the former recoveries of a server from a host, the newest first.
Former = Callable[[str], Sequence[model.Recovery]]
FactsOf = Callable[[str, Mapping[str, Any] | None], gates.Facts]
# Recoveries created in one transaction.
_AT_ONCE = 200
# The epoch of a recovery that its creator works on at once.
_FIRST = 1


@dataclasses.dataclass(frozen=True)
class Suspicion:
    """A host that this engine suspects.

    Its times are by the engine's clock, which the clock of the system may have left.

    :ivar heard: time at which this engine heard the host last; None for never
    :ivar well: the same for the last time at which the host was not suspected
    """

    name: str
    why: Why
    heard: float | None = None
    well: float | None = None


# A recovery that is to be created, and its server as it was just read.
Wanted = tuple[model.Recovery, model.Server]


class Creation:
    """Creates recoveries. Every method may be called by any thread, and repeated.

    :param engine: name of this engine
    """

    def __init__(self, context: contexts.Context, work: conductors.Conductor, engine: str) -> None:
        self._context = context
        self._work = work
        self._engine = engine

    def new(self, host: model.Host, server: model.Server,
            expected: float | None, now: float) -> model.Recovery:
        """Return a new recovery, which is not in the database yet."""
        return model.Recovery(
            id=str(uuid.uuid4()), server=server.id, server_name=server.name,
            project=server.project, host=host.name, suspected=host.since, why=host.why,
            priority=order.priority(server, self._context.settings.tenant_priority_max),
            expected=expected, created=now)

    def begin_all(self, wanted: Sequence[Wanted]) -> int:
        """Create recoveries, and begin them in order; return how many."""
        servers = {recovery.id: server for recovery, server in wanted}
        ordered = order.ordered(
            [recovery for recovery, _ in wanted], self._context.settings.tenant_priority_max,
            self._context.clock.wall())
        return sum(self.begin(ordered[place:place + _AT_ONCE], servers)
                   for place in range(0, len(ordered), _AT_ONCE))

    def begin(self, ordered: Sequence[model.Recovery],
              servers: Mapping[str, model.Server]) -> int:
        """Create recoveries and start the work on them in this order; return how many.

        They are created at once: one by one, the last ones would wait for the work of the first
        ones.

        :param servers: by recovery, its server if it was just read
        """
        wanted: list[model.Recovery] = []
        created: set[str] = set()
        try:
            for recovery in ordered:
                wanted.append(self._reserved(recovery))
            created = self._context.store.create(wanted)
        finally:
            for recovery in wanted:
                if recovery.epoch and recovery.id not in created:
                    self._work.release(recovery.id)
        begun = [recovery for recovery in wanted if recovery.id in created]
        for recovery in begun:
            LOG.info('recovery %s of server %s on %s begins', recovery.id, recovery.server,
                     recovery.host)
            try:
                self._work.begin(recovery, servers.get(recovery.id))
            except Exception:
                # The conductor takes it later; until then, it must not hold up the other ones.
                LOG.exception('recovery %s cannot begin: it is taken later', recovery.id)
                if recovery.epoch:
                    self._work.release(recovery.id)
        for recovery in begun:
            self._context.observer.recovery('start', recovery)
        return len(begun)

    def observe(self, host: model.Host, wanted: Sequence[model.Recovery], *, crashed: bool = False,
                **values: Any) -> model.Host | None:
        """Record recoveries that do not begin, because the mode of their host is to observe.

        :param host: as it was read before the former recoveries of the servers
        :param crashed: the servers have crashed; otherwise the host is silent, and may return
        :param values: what changes of the host
        :returns: the host; None if another engine has changed it, and may have recorded them
        """
        ended = [dataclasses.replace(recovery, state=model.ENDED, outcome=model.OBSERVED,
                                     ended=recovery.created if crashed else None)
                 for recovery in wanted]
        changed = self._context.store.observe(host, ended, **values)
        for recovery in ended if changed is not None else ():
            LOG.info('recovery %s of server %s on %s is only observed', recovery.id,
                     recovery.server, recovery.host)
            self._context.observer.recovery('end', recovery)
        return changed

    def _reserved(self, recovery: model.Recovery) -> model.Recovery:
        """Return a new recovery, assigned to this engine if it has a slot for it."""
        if not self._work.reserve(recovery):
            return recovery
        return dataclasses.replace(recovery, epoch=_FIRST, engine=self._engine)


class Dispatcher:
    """Decides which servers are recovered. Every method may be called by any thread, and repeated.

    :param facts: returns the facts that the gates of hosts examine: Monitor.facts
    :param engine: name of this engine
    :param crash_gates: the gates of hosts that also apply to single servers
    :param nova: answers questions about suspected hosts
    """

    def __init__(self, context: contexts.Context, facts: FactsOf, host_gates: gates.Gates,
                 server_gates: servers.Gates, work: conductors.Conductor, engine: str,
                 crash_gates: gates.Gates | None = None, *,
                 nova: nova_prefetch.NovaPrefetch) -> None:
        self._context = context
        self._facts = facts
        self._host_gates = host_gates
        self._server_gates = server_gates
        self._creation = Creation(context, work, engine)
        self._crash_gates = crash_gates or gates.Gates(())
        self._nova = nova
        # By host: the time until which Nova is not asked again, and its reasons.
        self._held: dict[str, tuple[float, list[str]]] = {}
        # By host: the time of its suspicion, and the servers that were left in their state since.
        self._shown: dict[str, tuple[float, set[str]]] = {}

    def suspect_all(self, suspicions: Sequence[Suspicion]) -> list[list[str] | Exception]:
        """Act on suspicions of hosts, whose servers are recovered in one order.

        An error that concerns one host holds back no other one.

        :returns: for each suspicion the reasons that hold the action back, or the error, such as
            :class:`exception.Unreachable` of a service that does not answer
        """
        now = self._context.clock.now()
        results: list[list[str] | Exception] = []
        accepted: list[tuple[int, model.Host, float, bool]] = []
        if len(suspicions) > 1:
            self._ask_ahead(suspicions, now)
        for suspicion in suspicions:
            try:
                outcome = self._suspect(suspicion, now)
            except exception.Unreachable as exc:
                results.append(exc)
                continue
            except Exception as exc:
                self._held[suspicion.name] = now + _HELD, [_unexpected(suspicion.name, exc)]
                results.append(exc)
                continue
            results.append(outcome if isinstance(outcome, list) else [])
            if not isinstance(outcome, list):
                accepted.append((len(results) - 1, *outcome))
        wanted: list[Wanted] = []
        for place, host, since, again in accepted:
            try:
                wanted += self._wanted(host, self._idle(host, since),
                                       self._former(host) if again else None)
            except exception.Unreachable as exc:
                results[place] = exc
            except Exception as exc:
                _unexpected(host.name, exc)
                results[place] = exc
        try:
            self._creation.begin_all(wanted)
        except exception.Unreachable as exc:
            for place, *_ in accepted:
                results[place] = exc
        return results

    def _ask_ahead(self, suspicions: Sequence[Suspicion], now: float) -> None:
        """Ask Nova about hosts: the answers come while those about others are waited for."""
        for suspicion in suspicions:
            name, since = suspicion.name, now if suspicion.heard is None else suspicion.heard
            until, _ = self._held.get(name, (now, []))
            with contextlib.suppress(Exception):
                if until <= now and not self._shut(model.Host(name), None):
                    self._nova.begin(name, since)

    def _suspect(self, suspicion: Suspicion, now: float
                 ) -> list[str] | tuple[model.Host, float, bool]:
        """Record a suspicion.

        :returns: the reasons that hold the action back, none if another engine has acted; or the
            host, the time since which it has done nothing, and whether recoveries of the same
            suspicion may exist
        """
        store, name = self._context.store, suspicion.name
        host = store.host(name)
        anew = host.state == model.TRUSTED
        if not anew and (suspicion.well is None or (
                now - suspicion.well >= self._context.age(host.since) - contexts.APART)):
            # Another engine has acted on it; the janitor completes what that engine leaves undone.
            return []
        # An answer from after the host fell silent is as good as a new one.
        since = now if suspicion.heard is None else suspicion.heard
        reasons = self._reasons(host, since, ours=not anew)
        if reasons == [gates.observing(name)] and host.held != tuple(reasons):
            self._observe(host, suspicion, since)
        if reasons:
            return reasons
        # A host that had come back, and was not clean yet, has failed once more: its servers are
        # judged from this suspicion on.
        changed = store.change_host(host, state=model.SUSPECTED if anew else host.state,
                                    since=self._context.clock.wall(),
                                    why=tuple(suspicion.why), held=())
        if changed is None:
            return ['another engine was faster']
        self._context.leases.note([changed], self._context.clock.now())
        LOG.warning('host %s is suspected%s: %s', name, '' if anew else ' once more',
                    '; '.join(str(fact.get('words', fact)) for fact in suspicion.why))
        if host.held:
            self._context.observer.host('release', changed)
        self._context.observer.host('suspect', changed)
        return changed, since, not anew

    def _observe(self, host: model.Host, suspicion: Suspicion, since: float) -> None:
        """Record the recoveries that would begin if the mode of a host were to act.

        The engine that records first why the host is held does so.
        """
        suspected = dataclasses.replace(host, since=self._context.clock.wall(),
                                        why=tuple(suspicion.why))
        wanted = [recovery for recovery, _ in
                  self._wanted(suspected, self._idle(suspected, since), timely=False)]
        changed = self._creation.observe(host, wanted, held=(gates.observing(host.name),))
        if changed is None:
            return
        LOG.warning('host %s would be suspected: %s', host.name,
                    '; '.join(str(fact.get('words', fact)) for fact in suspicion.why))
        if not host.held:
            self._context.observer.host('hold', changed)

    def shut(self, facts: gates.Facts) -> list[str]:
        """Return the reasons of the gates that are shut by what this engine hears alone."""
        return self._host_gates.reasons(facts)

    def hold(self, name: str, reasons: Iterable[str]) -> None:
        """Record the reasons that hold back the recoveries of a host that seems to have failed.

        :raises exception.Unreachable: the database does not answer
        """
        host, held = self._context.store.host(name), tuple(reasons)
        if host.state != model.TRUSTED or host.held == held:
            return
        changed = self._context.store.change_host(host, held=held)
        if changed is not None and not host.held:
            self._context.observer.host('hold', changed)

    def again(self, host: model.Host) -> int:
        """Create further recoveries for a host that is still suspected; return how many.

        An engine may have died before it had created all recoveries, and recoveries may have
        ended although the server serves nowhere.

        :raises exception.Unreachable: Nova or the database does not answer
        """
        now = self._context.clock.now()
        if self._reasons(host, now, ours=True):
            return 0
        idle, former = self._idle(host, now), self._former(host)
        return self._creation.begin_all(
            [*self._wanted(host, idle, former), *self._left(host, idle, former)])

    def crashed(self, name: str, server_id: str, why: Why) -> str | None:
        """Act on the crash of one server on a host that is well.

        :returns: why the crash has to wait; None if the engine has acted on it, or need not
        :raises exception.Unreachable: Nova or the database does not answer: call again
        """
        context = self._context
        heard = min((float(fact['at']) for fact in why if 'at' in fact),
                    default=context.clock.wall())
        old = context.age(heard) >= _OLD
        if not context.suspects.is_well(name):
            if old and not context.store.host(name).generation:
                LOG.info('server %s crashed on %s, which was removed from the cloud', server_id,
                         name)
                return None
            return f'{name} is not known to be well'
        host = context.store.host(name)
        if host.state != model.TRUSTED:
            return f'{name} is {host.state}'
        server = context.compute.server(server_id)
        recoveries = context.store.recoveries({'server': server_id}, _MANY)
        before = [recovery for recovery in recoveries if restart.concerns(recovery)]
        if any(self._answers(recovery, heard) for recovery in before):
            # Another engine has acted on this crash.
            return None
        if server is not None and server.host != name and any(
                recovery.destination == name and recovery.state != model.ENDED
                for recovery in recoveries):
            return f'another recovery moves it to {name}'
        if server is None or server.host != name:
            LOG.info('server %s crashed on %s, and is not restarted: it is %s', server_id, name,
                     'deleted' if server is None else f'on {server.host}')
            return None
        service = context.compute.service(name)
        if service.get('forced_down', False):
            # A request of an engine that was late, which is lifted where the host is trusted.
            return f'Nova was told that {name} is down'
        if restart.by_itself(why):
            before = [recovery for recovery in before if restart.by_itself(recovery.why)]
        else:
            # A server does not flap because its host does.
            before = []
        since = heard - _EARLIER if old else None
        decided = server.task is None or server.deleting or tasks.is_reboot(server.task)
        if not decided and not self._against(
                host, service, dataclasses.replace(server, task=None, status='ACTIVE'), before,
                since):
            # What Nova does ends, and may leave the server down.
            return f'Nova is at work on it: {server.task}'
        fact = None
        if heard <= host.since:
            # The guest has ended with its host, or with the fence.
            fact = self._owed(server, _from(name, recoveries))
        crash = dataclasses.replace(host, since=context.clock.wall(),
                                    why=(*why, fact) if fact else tuple(why))
        wanted = self._creation.new(crash, server, None, crash.since)
        if reasons := self._against(host, service, server, before, since):
            LOG.warning('server %s crashed on %s, and is not restarted: %s', server_id, name,
                        '; '.join(reasons))
            if reasons == [gates.observing(name)] and (
                    self._creation.observe(host, [wanted], crashed=True) is None):
                return 'another engine has changed its host'
            return None
        begun = self._creation.begin([wanted], {})
        return None if begun else 'another recovery of it is under way'

    def _answers(self, recovery: model.Recovery, heard: float) -> bool:
        """Return whether a recovery belongs to a crash, not to an earlier one.

        Where the clocks of two engines leave that open, the crash is another one unless the server
        runs: a needless restart checks that first, but a dropped crash leaves the server down.

        :param heard: time at which this engine first heard of the crash
        """
        if recovery.created < heard - _TOLD:
            return False
        if (recovery.ended is None or recovery.outcome == model.OBSERVED
                or recovery.ended > heard + contexts.APART):
            return True
        return recovery.ended >= heard - contexts.APART and bool(
            self._context.suspects.running(recovery.host, recovery.server))

    def _against(self, host: model.Host, service: Mapping[str, Any], server: model.Server,
                 before: Sequence[model.Recovery], since: float | None) -> list[str]:
        """Return the reasons for which a server that has crashed is not restarted.

        :param service: nova-compute of its host, as Nova shows it
        :param before: the recoveries after its earlier crashes that count
        :param since: the time after which nobody but Nova may have changed the server's power
        """
        options = self._context.options
        period = monitoring.Settings.flap_period
        times = sum(self._context.age(recovery.created) <= period
                    for recovery in before)
        often = [f'it has crashed {times} times before in {period:g} s'] \
            if 0 < options.flap_count <= times else []
        facts = gates.Facts(host.name, service=service, mode=self._context.modes.of(host.name))
        return (self._crash_gates.reasons(facts)
                + self._server_gates.reasons(self._before_crash(server, since)) + often)

    def _before_crash(self, server: model.Server, since: float | None) -> model.Server:
        """Return a server that has crashed as it was before Nova marked it as stopped.

        :param since: the time after which nobody but Nova may have changed the server's power
        """
        stopped = server.status == 'SHUTOFF' and self._context.compute.stopped_by_itself(
            server.id, since)
        return left.as_if_active(server) if stopped else server

    def _idle(self, host: model.Host, since: float) -> list[model.Server]:
        """Return the servers of a host that are not being recovered.

        :param since: time since which the host has done nothing
        """
        active = {recovery.server for recovery in self._context.store.active(host.name)}
        return [server for server in self._nova.servers(host.name, since)
                if server.id not in active]

    def _wanted(self, host: model.Host, idle: Sequence[model.Server],
                former: Former | None = None, *, timely: bool = True) -> list[Wanted]:
        """Return a new recovery for each server of a host that needs one.

        :param idle: the servers of the host that are not being recovered
        :param former: None if no earlier recovery can belong to the same suspicion
        :param timely: leave out servers that a rule has wait
        """
        context = self._context
        due = [server for server in idle if self._protected(server)
               and (self._is_time(host, server) or not timely) and (former is None or (
                   self._due(host, former(server.id))
                   and not self._owed(server, former(server.id))))]
        expected, now = kinds.expected(context.store, due), context.clock.wall()
        return [(self._creation.new(host, server, expected.get(server.id), now), server)
                for server in due]

    def _left(self, host: model.Host, idle: Sequence[model.Server], former: Former
              ) -> list[Wanted]:
        """Return a recovery for each server that a dead host leaves in its state.

        It is an evacuation, or fails with the reason.

        :param idle: the servers of the host that are not being recovered
        """
        context, options = self._context, self._context.options
        suspected, now = context.age(host.since), context.clock.wall()
        idle = [server for server in idle
                if suspected >= left.evacuated_after(server, options.evacuate_after)]
        gates = self._server_gates
        known = self._shown.get(host.name)
        if known is None or known[0] != host.since:
            known = self._shown[host.name] = host.since, set()
        wanted: list[Wanted] = []
        # Crashes that wait for the host, which will not restart the servers.
        crashed = {crash.server: crash.heard - _EARLIER for crash in context.store.crashes()
                   if crash.host == host.name} if idle else {}
        for server in idle:
            reasons = gates.obstacles(servers.without_request(server))
            able = not gates.reasons(left.as_if_active(server)) and (
                not reasons or left.can_be_evacuated(server))
            owed = self._owed(server, former(server.id)) if able else None
            if able and (reasons or owed):
                if self._due(host, former(server.id)):
                    ran = self._before_crash(server, crashed[server.id]) \
                        if server.id in crashed else server
                    fact = owed or left.fact(ran, reasons, now)
                    wanted.append(self._with(host, server, fact, now))
                continue
            if not reasons or server.id in known[1] or (
                    # Another service may evacuate it.
                    tasks.is_rebuild(server.task)
                    and suspected < context.settings.evacuate_timeout):
                continue
            known[1].add(server.id)
            if self._before(host, former(server.id)):
                # It has an outcome since the host was suspected.
                continue
            wanted.append(self._with(host, server, refused.fact(server, reasons, now), now))
        return wanted

    def _with(self, host: model.Host, server: model.Server, fact: Mapping[str, Any], now: float
              ) -> Wanted:
        """Return a recovery that comes after all others, with one more fact."""
        recovery = self._creation.new(dataclasses.replace(host, why=(*host.why, fact)), server,
                                      None, now)
        return dataclasses.replace(recovery, priority=order.LAST), server

    def _reasons(self, host: model.Host, since: float, ours: bool = False) -> list[str]:
        """Return the reasons that hold back the recoveries of a host.

        :param since: time since which the host has done nothing
        :param ours: recoveries of the host exist: engines have forced it down themselves
        """
        name, now = host.name, self._context.clock.now()
        observing = [gates.observing(name)]
        if (reasons := self._shut(host, None)) and reasons != observing:
            # These reasons do not need an answer of Nova.
            return reasons
        until, held = self._held.get(name, (now, []))
        if now < until:
            return held
        self._nova.begin(name, since)
        try:
            service = self._nova.service(name, since)
        except exception.Unreachable as exc:
            LOG.warning('host %s: Nova has not described its service: %s', name, exc)
            service = {}
        if ours:
            service = {**service, 'forced_down': False}
        reasons = self._shut(host, service)
        if reasons and reasons != observing:
            self._held[name] = now + _HELD, reasons
        else:
            self._held.pop(name, None)
        return reasons

    def _shut(self, host: model.Host, service: Mapping[str, Any] | None) -> list[str]:
        """Return the reasons of the gates that are closed."""
        return self._host_gates.reasons(dataclasses.replace(
            self._facts(host.name, service), mode=self._context.modes.of(host.name),
            sentinel=host.sentinel, shows=host.shows))

    def _protected(self, server: model.Server) -> bool:
        reasons = self._server_gates.reasons(servers.without_request(server))
        if reasons:
            LOG.info('server %s on %s is not recovered: %s', server.id, server.host,
                     '; '.join(reasons))
        return not reasons

    def _is_time(self, host: model.Host, server: model.Server) -> bool:
        """Return whether a host has been suspected for as long as a rule of a server says."""
        rule = server.rules.get(protected.NOT_BEFORE)
        return rule is None or self._context.age(host.since) >= rule.value

    def _due(self, host: model.Host, former: Sequence[model.Recovery]) -> bool:
        """Return whether another recovery is due: the wait doubles with each recovery."""
        before = self._before(host, former)
        if not before:
            return True
        wait = min(float(self._context.settings.again_after) * 2 ** (len(before) - 1), _SELDOM)
        return all(self._context.age(recovery.ended or 0.0) >= wait
                   for recovery in before)

    def _former(self, host: model.Host) -> Former:
        """Return a function that reads the recoveries of a server from a host, once."""
        def read(server: str) -> Sequence[model.Recovery]:
            return _from(host.name, self._context.store.recoveries({'server': server}, _MANY))
        return functools.cache(read)

    @staticmethod
    def _before(host: model.Host, former: Sequence[model.Recovery]) -> list[model.Recovery]:
        """Return the recoveries of a server since its host was suspected."""
        return [recovery for recovery in former if recovery.created >= host.since]

    def _owed(self, server: model.Server, former: Sequence[model.Recovery]
              ) -> Mapping[str, Any] | None:
        """Return the evidence that a server did not run when its host died, unlike it seems.

        :param former: its recoveries from its host, the newest first
        """
        for recovery in former:
            if recovery.outcome in _MOVED or self._context.age(recovery.ended or 0.0) > _OWED:
                return None
            known = self._context.store.get(recovery.id) if (
                recovery.outcome == model.FAILED) else None
            if known is None:
                continue
            if any(step.name == runs.ADOPT for step in known.steps):
                return left.again(server, known, pending.of(known), self._context.clock.wall())
            if left.of(known) is None:
                return None
        return None


def _from(host: str, recoveries: Sequence[model.Recovery]) -> list[model.Recovery]:
    """Return the recoveries of a server from a host, without its drills."""
    return [recovery for recovery in recoveries
            if recovery.host == host and not runs.is_drill(recovery)]


def _unexpected(host: str, error: Exception) -> str:
    """Log an error that concerns one host, and return it as a reason."""
    if isinstance(error, exception.EngineError):
        LOG.warning('host %s cannot be recovered, and is tried again: %s', host, error)
        return str(error)
    LOG.error('host %s cannot be recovered, and is tried again', host, exc_info=error)
    return f'an unexpected error: {error!r}'
