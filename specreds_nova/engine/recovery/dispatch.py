# SPDX-License-Identifier: Apache-2.0
"""What is done about a host that is suspected: a recovery for each of its servers, in order."""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
from typing import Any, Protocol
import uuid

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.detection import gates
from specreds_nova.engine.detection import servers
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import fairness
from specreds_nova.engine.recovery import kinds
from specreds_nova.engine.recovery import nova_prefetch
from specreds_nova.engine.recovery import policies
from specreds_nova.engine.recovery.steps import restart

LOG = logging.getLogger(__name__)

# Seconds between two recoveries of the same server, at most.
_SELDOM = 3600.0
# Recoveries of a server that are looked at to find out how often there has been one.
_MANY = 12
# Seconds for which hosts tell of a crash, and engines take what they hear for the same one.
_TOLD = 15.0
# Seconds for which it is not asked again whether Nova still keeps it from doing something.
_HELD = 2.0
# Seconds by which engines may be apart in what they take for now.
_APART = 5.0

# The epoch of a recovery that the engine that makes it works on at once.
_FIRST = 1

Why = Sequence[Mapping[str, Any]]
FactsOf = Callable[[str, Mapping[str, Any] | None], gates.Facts]


class Work(Protocol):
    """Where recoveries are worked on."""

    def expect(self, recoveries: Sequence[model.Recovery]) -> None:
        """Note which recoveries are about to be made: what they get depends on all of them."""

    def reserve(self, recovery: model.Recovery) -> bool:
        """Have this engine work on a recovery that is about to be made; False if it cannot."""

    def release(self, recovery_id: str) -> None:
        """It was not made."""

    def begin(self, recovery: model.Recovery) -> None:
        """It was: have it worked on, here if that was reserved, or by whoever can.

        :raises exception.Unreachable: nobody can be told now
        """


class Dispatcher:
    """Makes recoveries. Every method may be called by any thread, and repeated.

    :param facts: what the gates of hosts are to know: Monitor.facts
    :param engine: the name of this one
    :param crash_gates: those of hosts that also hold for single servers on them
    :param nova: who is asked of hosts that are suspected
    """

    def __init__(self, context: contexts.Context, facts: FactsOf, host_gates: gates.Gates,
                 server_gates: servers.Gates, work: Work, engine: str,
                 crash_gates: gates.Gates | None = None,
                 nova: nova_prefetch.HostQueries | None = None) -> None:
        self._context = context
        self._facts = facts
        self._host_gates = host_gates
        self._server_gates = server_gates
        self._work = work
        self._engine = engine
        self._crash_gates = crash_gates or gates.Gates(())
        self._nova: nova_prefetch.HostQueries = (
            nova or nova_prefetch.DirectQueries(context.compute))
        # Until when Nova is not asked again of which hosts, and what it has against them.
        self._held: dict[str, tuple[float, list[str]]] = {}

    def suspect(self, name: str, why: Why, heard: float | None = None,
                well: float | None = None) -> list[str]:
        """Act on the suspicion of a host; gives why that is not done (yet), if it is not.

        :param heard: when this engine has heard it last, in seconds since the epoch; None for
            never
        :param well: the same while it was not suspected
        :raises exception.Unreachable: Nova or the database does not answer: ask again
        """
        store, now = self._context.store, self._context.clock.now()
        host = store.host(name)
        anew = host.state == model.TRUSTED
        if not anew and (well is None or well <= host.since + _APART):
            # It was another engine's; whatever that one leaves undone the janitor does.
            return []
        # What was asked after it fell silent is as good as what is asked now.
        since = now if heard is None else heard
        reasons = self._reasons(host, since, ours=not anew)
        if reasons:
            return reasons
        # One that was back meanwhile, and was not clean yet, has failed once more: what is said
        # of its servers from now on counts from now on.
        changed = store.change_host(host, state=model.SUSPECTED if anew else host.state,
                                    since=now, why=tuple(why), held=())
        if changed is None:
            return ['another engine was faster']
        LOG.warning('host %s is suspected%s: %s', name, '' if anew else ' once more',
                    '; '.join(str(one.get('words', one)) for one in why))
        self._context.observer.host('suspect', changed)
        self._dispatch(changed, since, again=not anew)
        return []

    def hold(self, name: str, reasons: Iterable[str]) -> None:
        """Write down why nothing is done about a host that this engine takes for dead.

        :raises exception.Unreachable: the database does not answer
        """
        host, held = self._context.store.host(name), tuple(reasons)
        if host.state != model.TRUSTED or host.held == held:
            return
        changed = self._context.store.change_host(host, held=held)
        if changed is not None and not host.held:
            self._context.observer.host('hold', changed)

    def again(self, host: model.Host) -> int:
        """Look after the servers that are still on a host that is still suspected.

        An engine may have died before it had made all recoveries, and recoveries may have ended
        without the server serving elsewhere.

        :raises exception.Unreachable: Nova or the database does not answer
        """
        now = self._context.clock.now()
        if self._reasons(host, now, ours=True):
            return 0
        return self._dispatch(host, now, again=True)

    def crashed(self, name: str, server_id: str, why: Why) -> str | None:
        """Act on the crash of one server on a host that is well.

        :returns: why that is not done yet; None if it is, or is not to be
        :raises exception.Unreachable: Nova or the database does not answer: ask again
        """
        context = self._context
        if not context.suspects.is_well(name):
            return f'{name} is not known to be well'
        host = context.store.host(name)
        if host.state != model.TRUSTED:
            return f'{name} is {host.state}'
        server = context.compute.server(server_id)
        before = [one for one in context.store.recoveries({'server': server_id}, _MANY)
                  if restart.concerns(one)]
        heard = min((float(one['at']) for one in why if 'at' in one), default=context.clock.now())
        if any(one.created >= heard - _TOLD for one in before):
            # Another engine has heard of it, too.
            return None
        reasons = self._against(host, server, before)
        if server is None or reasons:
            LOG.warning('nothing is done about the crash of server %s on %s: %s', server_id,
                        name, '; '.join(reasons))
            return None
        crash = dataclasses.replace(host, since=context.clock.now(), why=tuple(why))
        return None if self._begin([self._new(crash, server, None, crash.since)]) else \
            'another recovery of it is under way'

    def _against(self, host: model.Host, server: model.Server | None,
                 before: Sequence[model.Recovery]) -> list[str]:
        """Say why a server that has crashed is not to be started again.

        :param before: the recoveries after its former crashes
        """
        if server is None:
            return ['it is deleted']
        if server.host != host.name:
            return [f'it is on {server.host} now']
        options = self._context.options
        since = self._context.clock.now() - options.flap_period
        times = sum(one.created >= since for one in before)
        often = [f'it has crashed {times} times before in {options.flap_period:g} s'] \
            if 0 < options.flap_count <= times else []
        facts = gates.Facts(host.name, service=self._context.compute.service(host.name),
                            maintenance=host.maintenance)
        return self._crash_gates.reasons(facts) + self._server_gates.reasons(server) + often

    def _dispatch(self, host: model.Host, since: float, *, again: bool = False) -> int:
        """Make a recovery for each server of a host that is to have one; gives how many.

        :param since: the host has done nothing since then
        :param again: there may have been some in this suspicion
        """
        context = self._context
        active = {one.server for one in context.store.active()}
        found = [server for server in self._nova.servers(host.name, since)
                 if self._protected(server)]
        due = [server for server in found if server.id not in active
               and (not again or self._due(host, server))]
        expected, now = kinds.expected(context.store, due), context.clock.now()
        wanted = policies.ordered(
            context.options.dispatch_policy,
            [self._new(host, server, expected.get(server.id), now) for server in due],
            context.options.tenant_priority_max, now)
        self._work.expect(wanted)
        return self._begin(wanted)

    def _reasons(self, host: model.Host, since: float, ours: bool = False) -> list[str]:
        """Say why nothing is to be done about a host.

        :param since: the host has done nothing since then
        :param ours: something is done already: that it is forced down says nothing
        """
        name, now = host.name, self._context.clock.now()
        if reasons := self._shut(host, None):
            # Then Nova need not be asked.
            return reasons
        until, held = self._held.get(name, (now, []))
        if now < until:
            return held
        self._nova.begin(name, since)
        try:
            service = self._nova.service(name, since)
        except exception.Unreachable as exc:
            LOG.warning('host %s: %s', name, exc)
            service = {}
        if ours:
            service = {**service, 'forced_down': False}
        reasons = self._shut(host, service)
        if reasons:
            self._held[name] = now + _HELD, reasons
        else:
            self._held.pop(name, None)
        return reasons

    def _shut(self, host: model.Host, service: Mapping[str, Any] | None) -> list[str]:
        """Return the reasons of the gates that are shut."""
        return self._host_gates.reasons(dataclasses.replace(
            self._facts(host.name, service), maintenance=host.maintenance))

    def _protected(self, server: model.Server) -> bool:
        reasons = self._server_gates.reasons(server)
        if reasons:
            LOG.info('server %s on %s has no recovery: %s', server.id, server.host,
                     '; '.join(reasons))
        return not reasons

    def _due(self, host: model.Host, server: model.Server) -> bool:
        """Tell whether it is time for a recovery: each takes twice as long as the one before."""
        before = [one for one in self._context.store.recoveries({'server': server.id}, _MANY)
                  if one.host == host.name and one.created >= host.since]
        if not before:
            return True
        wait = min(float(self._context.options.again_after) * 2 ** (len(before) - 1), _SELDOM)
        ended = max(one.ended or 0.0 for one in before)
        return bool(self._context.clock.now() >= ended + wait)

    def _priority(self, server: model.Server) -> int:
        return fairness.priority(server, self._context.options.tenant_priority_max)

    def _new(self, host: model.Host, server: model.Server, expected: float | None, now: float
             ) -> model.Recovery:
        """Return a recovery that is not written down yet."""
        return model.Recovery(
            id=str(uuid.uuid4()), server=server.id, server_name=server.name,
            project=server.project, host=host.name, suspected=host.since, why=host.why,
            priority=self._priority(server), expected=expected, created=now)

    def _reserved(self, recovery: model.Recovery) -> model.Recovery:
        """Return a new recovery as this engine's if it keeps a slot for it."""
        if not self._work.reserve(recovery):
            return recovery
        return dataclasses.replace(recovery, epoch=_FIRST, engine=self._engine)

    def _begin(self, ordered: Sequence[model.Recovery]) -> int:
        """Write recoveries down, and have them worked on in that order; gives how many.

        All at once: one by one, the last ones would wait for what the first ones do by then.
        """
        wanted = [self._reserved(recovery) for recovery in ordered]
        made: set[str] = set()
        try:
            made = self._context.store.create(wanted)
        finally:
            for recovery in wanted:
                if recovery.epoch and recovery.id not in made:
                    self._work.release(recovery.id)
        begun = [recovery for recovery in wanted if recovery.id in made]
        for recovery in begun:
            LOG.info('recovery %s of server %s on %s begins', recovery.id, recovery.server,
                     recovery.host)
            try:
                self._work.begin(recovery)
            except exception.Unreachable as exc:
                LOG.warning('recovery %s is posted later: %s', recovery.id, exc)
        for recovery in begun:
            self._context.observer.recovery('start', recovery)
        return len(begun)
