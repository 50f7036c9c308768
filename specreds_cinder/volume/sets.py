# SPDX-License-Identifier: Apache-2.0
"""Sets on several back ends, as the back end that leads a set sees them."""

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
import contextlib
import time
from typing import Any

from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder import rpcapi
from specreds_cinder.superposition import states
from specreds_cinder.volume import base
from specreds_cinder.volume import members
from specreds_cinder.volume import reports

LOG = logging.getLogger(__name__)


class Sets(members.Members):
    """Takes each step of a set on all of its back ends."""

    def _collapse_set(self, ctxt: Any, shown: base.View, durable: bool) -> base.View:
        began = time.monotonic()
        hosts = shown['labels']['members']
        arguments = {'superposition_id': shown['id']}
        # An interrupted collapse may have fenced the primary, which is late dirty then.
        resumed = shown['state'] == states.COLLAPSING
        try:
            checks = rpcapi.merge_checks(
                self._on_each(ctxt, hosts, 'check', lambda _host: arguments))
        except exception.SuperpositionNotFound:
            # As long as the leader's record exists and is undecided, a member ends its own record
            # only for the primary.
            self._show(ctxt, shown['id'])
            self._drop_all(ctxt, shown['id'], hosts, fenced=True)
            return reports.collapse_of_set(
                states.LATE_DIRTY if resumed else states.UNPROVEN, reports.GONE, [], began)
        if checks['dirty'] or checks['unproven']:
            self._drop_all(ctxt, shown['id'], hosts, fenced=resumed)
            lost = states.DIRTY if checks['dirty'] else states.UNPROVEN
            return reports.collapse_of_set(
                states.LATE_DIRTY if resumed else lost, checks, [], began)
        prepared = self._on_each(ctxt, hosts, 'prepare',
                                 lambda _host: {**arguments, 'durable': durable})
        if any(report['outcome'] != states.PREPARED for report in prepared):
            self._drop_all(ctxt, shown['id'], hosts, fenced=True)
            return reports.collapse_of_set(states.LATE_DIRTY, checks, prepared, began)
        # The commit point of the set: if the record is gone by now, the set was aborted.
        committing = time.monotonic()
        self._worker(ctxt, 'commit', superposition=shown['id'])
        commit_s = time.monotonic() - committing
        for host in hosts[1:]:
            with self._tolerate_absence(host, shown['id']):
                self._on(ctxt, host, 'commit', **arguments)
        return reports.collapse_of_set(states.PROMOTED, checks, prepared, began, commit_s)

    def _drop_all(self, ctxt: Any, superposition_id: str, hosts: Sequence[str], *,
                  fenced: bool = False) -> None:
        # The leader first: after an interruption, the others learn from its missing record.
        self.member_drop(ctxt, superposition_id, fenced)
        for host in hosts[1:]:
            with self._tolerate_absence(host, superposition_id):
                self._on(ctxt, host, 'drop', superposition_id=superposition_id, fenced=fenced)

    @contextlib.contextmanager
    def _tolerate_absence(self, host: str, superposition_id: str) -> Iterator[None]:
        """Log the error of a call that may be lost: its back end polls the leader later."""
        try:
            yield
        except exception.SuperpositionError as exc:
            LOG.warning('superposition %s: back end %s does not answer, and will read the '
                        'decision from the leader later (%s)', superposition_id, host, exc.msg)

    def _on_each(self, ctxt: Any, hosts: Sequence[str], step: str,
                 arguments: Callable[[str], Mapping[str, Any]]) -> builtins.list[base.View]:
        """Take a step on all hosts at a time; all of them end before an error is raised."""
        if len(hosts) == 1:
            return [self._on(ctxt, hosts[0], step, **arguments(hosts[0]))]
        with futures.ThreadPoolExecutor(len(hosts)) as executor:
            pending = [executor.submit(self._on, ctxt, host, step, **arguments(host))
                       for host in hosts]
        return [future.result() for future in pending]

    def _on(self, ctxt: Any, host: str, step: str, **arguments: Any) -> Any:
        """Take a step of a set on a back end, which may be this one."""
        if host == self._host:
            return getattr(self, f'member_{step}')(ctxt, **arguments)
        return self._peers.member(ctxt, host, step, **arguments)
