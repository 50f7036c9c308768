# SPDX-License-Identifier: Apache-2.0
"""Looks after what nobody else does: hosts that are back, jobs and superpositions that were lost.

All engines do, at any time, so whatever is done here may be done twice.
"""

from collections.abc import Callable
from typing import Any

from oslo_log import log as logging

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import dispatch

LOG = logging.getLogger(__name__)

# Seconds that whoever has begun something has for it, before it is taken for lost.
_GRACE = 5.0
# Seconds between two looks at what does not happen often.
_SELDOM = 60.0
_PRUNING = 3600.0
# Seconds between two looks, in Nova, at the servers of a host that is still suspected: they cost
# it more than all else while backups boot.
_LEFT = 10.0
# Errors that only concern what is looked at.
_PASSING = (exception.EngineError, backup_errors.BackupError)


class Janitor:
    """One look at everything at a time.

    :param known: gives the recoveries of which there are jobs
    :param post: has a recovery worked on
    :param heed: takes an operator's word: host, word, reason
    :param keep: seconds for which recoveries that have ended are remembered
    """

    def __init__(self, context: contexts.Context, dispatcher: dispatch.Dispatcher,
                 known: Callable[[], set[str]], post: Callable[[model.Recovery], None],
                 heed: Callable[[str, str | None, str], None], keep: float) -> None:
        self._context = context
        self._dispatcher = dispatcher
        self._known = known
        self._post = post
        self._heed = heed
        self._keep = keep
        self._swept = self._pruned = float('-inf')
        # When which host's servers are to be looked at again.
        self._due: dict[str, float] = {}

    def look(self) -> None:
        """Look at everything once; what fails now is done another time."""
        try:
            hosts = self._context.store.hosts()
            active = self._context.store.active()
        except exception.EngineError as exc:
            LOG.warning('nothing is looked after: %s', exc)
            return
        self._each('the jobs', self._jobs, active)
        for host in hosts:
            mine = [one for one in active if one.host == host.name]
            self._each(f'host {host.name}', self._host, host, mine)
        now = self._context.clock.now()
        if now - self._swept >= _SELDOM:
            self._swept = now
            self._each('superpositions', self._superpositions, active)
        if now - self._pruned >= _PRUNING:
            self._pruned = now
            self._each('old recoveries', self._context.store.prune, now - self._keep)

    @staticmethod
    def _each(what: str, look: Callable[..., object], *arguments: object) -> None:
        try:
            look(*arguments)
        except _PASSING as exc:
            LOG.warning('%s: %s', what, exc)
        except Exception:
            LOG.exception('%s', what)

    def _jobs(self, active: list[model.Recovery]) -> None:
        """Post the recoveries again of which there is no job."""
        now = self._context.clock.now()
        old = [one for one in active if now - one.updated > _GRACE]
        if not old:
            return
        known = self._known()
        for one in old:
            if one.id not in known:
                LOG.info('recovery %s of server %s has no job: it is posted again', one.id,
                         one.server)
                self._post(one)

    # Hosts

    def _host(self, host: model.Host, mine: list[model.Recovery]) -> None:
        self._heed(host.name, host.word, host.word_reason or '')
        if host.word == model.CLEAR:
            for one in mine:
                if one.state in model.BEFORE_COMMIT and not one.abort:
                    self._context.store.request_abort(one.id)
        if host.state == model.TRUSTED:
            self._settle(host)
        elif self._context.clock.now() - host.since >= _GRACE:
            self._suspected(host, mine)

    def _settle(self, host: model.Host) -> None:
        """Take back what was written down of a host and is over."""
        beats = self._context.suspects.is_well(host.name)
        over: dict[str, Any] = {}
        if host.word == model.CLEAR and beats:
            # It has had its effect.
            over.update(word=None, word_reason=None)
        if host.held and beats:
            over['held'] = ()
        since = self._context.clock.now() - host.since
        if host.flaps and since >= self._context.options.flap_period:
            over['flaps'] = 0
        if over:
            self._context.store.change_host(host, **over)

    def _suspected(self, host: model.Host, mine: list[model.Recovery]) -> None:
        before_end = [one for one in mine if one.state != model.MERGING]
        back = (self._context.suspects.is_well(host.name)
                or not self._context.suspects.suspected(host.name))
        now = self._context.clock.now()
        if back:
            self._due.pop(host.name, None)
            if not before_end:
                self._trust(host)
        elif now >= self._due.get(host.name, now):
            self._dispatcher.again(host)
            self._due[host.name] = now + _LEFT

    def _trust(self, host: model.Host) -> None:
        """End the suspicion of a host that is back, and on which nothing is under way."""
        if host.state == model.FENCED and not self._clean(host):
            return
        # What an operator says begins one suspicion, not one after the other.
        word = {} if host.word is None else {'word': None, 'word_reason': None}
        changed = self._context.store.change_host(
            host, state=model.TRUSTED, why=(), flaps=self._context.suspects.flaps(host.name),
            **word)
        if changed is not None:
            LOG.info('host %s is trusted again', host.name)
            self._context.observer.host('clear', changed)

    def _clean(self, host: model.Host) -> bool:
        """Have a host removed what is left there of servers that are elsewhere."""
        found = self._context.backups.returned(host.name)
        if not found.get('clean'):
            LOG.info('host %s is not clean yet: %s', host.name, found.get('left'))
            return False
        if not self._context.compute.service(host.name).get('forced_down'):
            return True
        if not self._context.compute.force_down(host.name, False):
            LOG.info('Nova does not take host %s back yet', host.name)
            return False
        return True

    # Superpositions

    def _superpositions(self, active: list[model.Recovery]) -> None:
        """Drop those of recoveries that have ended: an engine that died may have asked for one."""
        at_work = {one.id for one in active}
        for superposition, recovery_id in self._context.volumes.ours().items():
            if recovery_id in at_work:
                continue
            found = self._context.store.get(recovery_id)
            if found is None or found.state == model.ENDED:
                LOG.info('superposition %s is dropped: recovery %s has ended', superposition,
                         recovery_id)
                self._context.volumes.drop(superposition)
