# SPDX-License-Identifier: Apache-2.0
"""Sets on several back ends, as the back end that leads a set sees them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
import contextlib
import time
from typing import Any

from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder import rpcapi
from specreds_cinder.superposition import states
from specreds_cinder.volume import backend as backends
from specreds_cinder.volume import members
from specreds_cinder.volume import reports

LOG = logging.getLogger(__name__)


def prepare_and_commit(backend: backends.Backend, ctxt: Any, shown: backends.View,
                       durable: bool) -> backends.View:
    """Decide on a set for the backup, unless the primary has written on any back end."""
    began = time.monotonic()
    hosts = shown['labels']['members']
    arguments = {'superposition_id': shown['id']}
    # An interrupted collapse may have fenced the primary, which is late dirty then.
    resumed = shown['state'] == states.COLLAPSING
    try:
        checks = rpcapi.merge_checks(on_each(backend, ctxt, hosts, 'check', lambda _: arguments))
    except exception.SuperpositionNotFound:
        # As long as the leader's record exists and is undecided, a member ends its own record
        # only for the primary.
        backend.show(ctxt, shown['id'])
        drop_all(backend, ctxt, shown['id'], hosts, fenced=True)
        return reports.of_set(
            states.LATE_DIRTY if resumed else states.UNPROVEN, reports.GONE, [], began)
    if checks['dirty'] or checks['unproven']:
        drop_all(backend, ctxt, shown['id'], hosts, fenced=resumed)
        lost = states.DIRTY if checks['dirty'] else states.UNPROVEN
        return reports.of_set(states.LATE_DIRTY if resumed else lost, checks, [], began)
    prepared = on_each(backend, ctxt, hosts, 'prepare',
                       lambda _: {**arguments, 'durable': durable})
    if any(report['outcome'] != states.PREPARED for report in prepared):
        drop_all(backend, ctxt, shown['id'], hosts, fenced=True)
        return reports.of_set(states.LATE_DIRTY, checks, prepared, began)
    # The commit point of the set: if the record is gone by now, the set was aborted.
    committing = time.monotonic()
    backend.call(ctxt, 'commit', superposition=shown['id'])
    commit_s = time.monotonic() - committing
    for host in hosts[1:]:
        with tolerate_absence(host, shown['id']):
            on(backend, ctxt, host, 'commit', **arguments)
    return reports.of_set(states.PROMOTED, checks, prepared, began, commit_s)


def drop_all(backend: backends.Backend, ctxt: Any, superposition_id: str, hosts: Sequence[str], *,
             fenced: bool = False) -> None:
    """Decide on a set for the primary, on all of its back ends."""
    # The leader first: after an interruption, the others learn from its missing record.
    members.drop(backend, ctxt, superposition_id, fenced)
    for host in hosts[1:]:
        with tolerate_absence(host, superposition_id):
            on(backend, ctxt, host, 'drop', superposition_id=superposition_id, fenced=fenced)


@contextlib.contextmanager
def tolerate_absence(host: str, superposition_id: str) -> Iterator[None]:
    """Log the error of a call that may be lost: its back end polls the leader later."""
    try:
        yield
    except exception.SuperpositionError as exc:
        LOG.warning('superposition %s: back end %s does not answer, and will read the '
                    'decision from the leader later (%s)', superposition_id, host, exc.msg)


def on_each(backend: backends.Backend, ctxt: Any, hosts: Sequence[str], step: str,
            arguments: Callable[[str], Mapping[str, Any]]) -> list[backends.View]:
    """Take a step on all hosts at a time; all of them end before an error is raised."""
    if len(hosts) == 1:
        return [on(backend, ctxt, hosts[0], step, **arguments(hosts[0]))]
    with futures.ThreadPoolExecutor(len(hosts)) as executor:
        pending = [executor.submit(on, backend, ctxt, host, step, **arguments(host))
                   for host in hosts]
    return [future.result() for future in pending]


def on(backend: backends.Backend, ctxt: Any, host: str, step: str, **arguments: Any) -> Any:
    """Take a step of a set on a back end, which may be this one."""
    if host == backend.host:
        return members.STEPS[step](backend, ctxt, **arguments)
    return backend.peers.call(ctxt, host, step, **arguments)
