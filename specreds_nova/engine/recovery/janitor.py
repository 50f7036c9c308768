# SPDX-License-Identifier: Apache-2.0
"""The janitor handles returned hosts, and superpositions without a recovery.

The janitors of all engines run at the same time, so each of their actions may be repeated.
"""

from collections.abc import Callable, Mapping, Sequence
import functools
import threading
from typing import Any

from oslo_log import log as logging

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import cleaning
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import dispatch
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import settings as monitoring

LOG = logging.getLogger(__name__)

# Seconds after which unfinished work of another engine counts as lost.
_GRACE = 5.0
# Seconds between two looks for superpositions, and for recoveries to remove.
_SELDOM = 60.0
_PRUNING = 3600.0
# Seconds between two lists of the servers of a suspected host: they cost Nova more than all other
# requests while backups boot.
_LEFT = 10.0
# Observed recoveries of a host that are read, and recoveries for which one look asks whether a
# host has room.
_OBSERVED, _ROOMS = 1000, 5
_NO_ROOM = 'no host has room for its backup'
# Errors that concern only one host or superposition.
_PASSING = (exception.EngineError, backup_errors.BackupError)


def _in_turn(looks: Sequence[Callable[[], None]]) -> None:
    for look in looks:
        look()


class Janitor:
    """The work of the janitor.

    :param heed: receives what an operator says of a host: host, word, reason
    :param keep: seconds for which recoveries that have ended are remembered
    :param together: calls functions, some at a time, until all have ended
    """

    def __init__(self, context: contexts.Context, dispatcher: dispatch.Dispatcher,
                 heed: Callable[[str, str | None, str], None], keep: float,
                 together: Callable[[Sequence[Callable[[], None]]], object] = _in_turn) -> None:
        self._context = context
        self._dispatcher = dispatcher
        self._heed = heed
        self._keep = keep
        self._together = together
        # Hosts of which operators have said something.
        self._spoken: set[str] = set()
        self._lock = threading.Lock()
        self._swept = self._pruned = float('-inf')
        # By host: the time at which its servers are listed again.
        self._due: dict[str, float] = {}
        # Hosts that were suspected or fenced at the last look.
        self._failed: frozenset[str] = frozenset()

    def look(self) -> None:
        """Do all work once; what fails is repeated by the next look."""
        try:
            hosts = self._context.store.notable_hosts()
            active = self._context.store.active()
        except exception.EngineError as exc:
            LOG.warning('hosts and superpositions are looked at later: %s', exc)
            return
        self._failed = frozenset(host.name for host in hosts if host.state != model.TRUSTED)
        self._heed_all(hosts)
        by_host: dict[str, list[model.Recovery]] = {}
        for recovery in active:
            by_host.setdefault(recovery.host, []).append(recovery)
        # A host that answers slowly holds up no other one.
        self._together([functools.partial(self._each, f'host {host.name}', self._host, host,
                                          by_host.get(host.name, ()))
                        for host in hosts])
        now = self._context.clock.now()
        if now - self._swept >= _SELDOM:
            self._swept = now
            self._each('superpositions', self._superpositions, active)
        if now - self._pruned >= _PRUNING:
            self._pruned = now
            self._each('old recoveries', self._context.store.prune,
                       self._context.clock.wall() - self._keep)

    def heed(self) -> None:
        """Heed what operators say of hosts."""
        try:
            hosts = self._context.store.notable_hosts()
        except exception.EngineError as exc:
            LOG.warning('what operators say of hosts is read later: %s', exc)
            return
        self._heed_all(hosts)

    def lift(self, services: Mapping[str, Mapping[str, Any]]) -> None:
        """Lift ``forced_down`` of hosts that Nova has forced down after they were trusted again.

        :param services: all services nova-compute by host, as in Nova's API
        """
        for name, service in services.items():
            if service.get('forced_down') and name not in self._failed:
                self._each(f'host {name}, which is forced down', self._lift, name)

    def _lift(self, name: str) -> None:
        if cleaning.lift(self._context, name):
            LOG.warning('host %s is trusted, and Nova has forced it down, probably by a late '
                        'request of an engine: this is lifted; an operator who wants it down '
                        'forces it down again in a minute, or sets its mode to pause', name)

    def _heed_all(self, hosts: Sequence[model.Host]) -> None:
        """Heed what operators say of hosts, and what they have taken back."""
        spoken = [host for host in hosts if host.word is not None]
        with self._lock:
            for host in spoken:
                self._heed(host.name, host.word, host.word_reason or '')
            names = {host.name for host in spoken}
            for name in self._spoken - names:
                self._heed(name, None, '')
            self._spoken = names

    @staticmethod
    def _each(what: str, look: Callable[..., object], *arguments: object) -> None:
        try:
            look(*arguments)
        except _PASSING as exc:
            LOG.warning('%s: %s', what, exc)
        except Exception:
            LOG.exception('%s', what)

    # Hosts

    def _host(self, host: model.Host, recoveries: Sequence[model.Recovery]) -> None:
        if host.word == model.CLEAR:
            for recovery in recoveries:
                if recovery.state in model.BEFORE_COMMIT and not recovery.abort:
                    self._context.store.request_abort(
                        recovery.id, f'an operator cleared {host.name}: {host.word_reason}')
        if host.state == model.TRUSTED:
            self._settle(host)
        elif self._context.age(host.since) >= _GRACE:
            self._suspected(host, recoveries)

    def _settle(self, host: model.Host) -> None:
        """Remove outdated facts from the record of a trusted host."""
        well = self._context.suspects.is_well(host.name)
        outdated: dict[str, Any] = {}
        if host.word == model.CLEAR and well:
            # The word has had its effect.
            outdated.update(word=None, word_reason=None)
        # An engine that does not hear the host would record its reasons again and again.
        if host.held and self._context.suspects.well_to_all(host.name):
            outdated['held'] = ()
        if host.flaps and self._context.age(host.since) >= monitoring.Settings.flap_period:
            outdated['flaps'] = 0
        if 'held' in outdated:
            changed = self._context.store.returned(host, **outdated)
        else:
            changed = self._context.store.change_host(host, **outdated) if outdated else None
            if host.held == (gates.observing(host.name),):
                self._look_for_room(host)
        if changed is not None and 'held' in outdated:
            LOG.info('host %s is well: its hold has ended', host.name)
            self._context.observer.host('release', changed)

    def _look_for_room(self, host: model.Host) -> None:
        """Record where the backups of recoveries would be that are only observed."""
        observed = [recovery for recovery in self._context.store.recoveries(
            {'host': host.name, 'outcome': model.OBSERVED}, _OBSERVED)
            if recovery.ended is None and not (recovery.destination or recovery.error)]
        for recovery in observed[-_ROOMS:]:
            server = self._context.compute.server(recovery.server)
            hosts = [] if server is None else self._context.compute.candidates(server)
            self._context.store.note_room(
                recovery.id, hosts[0] if hosts else None,
                None if hosts else 'the server is deleted' if server is None else _NO_ROOM)

    def _suspected(self, host: model.Host, recoveries: Sequence[model.Recovery]) -> None:
        unfinished = [recovery for recovery in recoveries if recovery.state != model.MERGING]
        back = (self._context.suspects.is_well(host.name)
                or not self._context.suspects.suspected(host.name))
        now = self._context.clock.now()
        if back:
            self._due.pop(host.name, None)
            if not unfinished:
                self._trust(host)
        elif now >= self._due.get(host.name, now):
            self._dispatcher.again(host)
            self._due[host.name] = now + _LEFT

    def _trust(self, host: model.Host) -> None:
        """End the suspicion of a host that is back and has no unfinished recoveries."""
        if host.state == model.FENCED and not self._clean(host):
            return
        # An operator's word begins one suspicion, and not another one after it.
        word = {} if host.word is None else {'word': None, 'word_reason': None}
        changed = self._context.store.returned(
            host, state=model.TRUSTED, why=(), flaps=self._context.suspects.flaps(host.name),
            **word)
        if changed is not None:
            LOG.info('host %s is trusted again', host.name)
            self._context.observer.host('clear', changed)

    def _clean(self, host: model.Host) -> bool:
        """Have a host remove its copies of servers that run elsewhere; return if it is clean."""
        answer = self._context.backups.returned(host.name)
        if not answer.get('clean'):
            LOG.info('host %s is not trusted yet, as it has copies of servers that run '
                     'elsewhere: %s', host.name, answer.get('left'))
            return False
        if not self._context.compute.service(host.name).get('forced_down'):
            return True
        if not self._context.compute.force_down(host.name, False):
            LOG.info('host %s is not trusted yet, as Nova keeps it forced down', host.name)
            return False
        return True

    # Superpositions

    def _superpositions(self, active: list[model.Recovery]) -> None:
        """Drop superpositions of ended recoveries, such as recoveries of a dead engine."""
        unfinished = {recovery.id for recovery in active}
        for superposition, recovery_id in self._context.volumes.ours().items():
            if recovery_id in unfinished:
                continue
            recovery = self._context.store.get(recovery_id)
            if recovery is None or recovery.state == model.ENDED:
                LOG.info('superposition %s is dropped: recovery %s has ended', superposition,
                         recovery_id)
                self._context.volumes.drop(superposition)
