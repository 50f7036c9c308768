# SPDX-License-Identifier: Apache-2.0
"""Requests of the API on volumes without a superposition: eligibility, and fences of hosts."""

from collections.abc import Callable, Mapping, Sequence
import functools
from typing import Any

from cinder import objects
from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder import server_disks
from specreds_cinder.api import reading
from specreds_cinder.service import rpcapi

LOG = logging.getLogger(__name__)


def eligibility(rpc: rpcapi.SuperAPI, ctxt: Any, volumes: Sequence[objects.Volume],
                disks: Sequence[str] = (), host: str | None = None) -> list[dict[str, Any]]:
    """Report which volumes can be superposed, and why others cannot.

    Also report of which ones a host can be shut out. Volumes of back ends without superpositions
    are not among them. A back end that does not answer has not said that it cannot.

    :param disks: ids of disks of servers, which follow
    :param host: the host to be shut out; None for any host. With a host the Ceph cluster and its
        user are reported as well, None for a back end that does not answer
    """
    answers_by_id: dict[str, dict[str, Any]] = {}
    more = {'fenced_host': host} if host else {}
    for backend, ids in reading.by_host(volumes).items():
        answers = _answers('volume_id', ids, functools.partial(
            rpc.call, ctxt, backend, 'eligibility', volume_ids=ids, **more))
        answers_by_id |= {answer['volume_id']: answer for answer in answers}
    answers = [answers_by_id[volume.id] for volume in volumes] + _answers(
        'disk', disks, lambda: rpc.call(ctxt, server_disks.backend(), 'eligibility',
                                        volume_ids=[], disks=disks) if disks else [])
    return [{field: value for field, value in answer.items() if host or field != 'cluster'}
            for answer in answers]


def observe(rpc: rpcapi.SuperAPI, ctxt: Any, volumes: Sequence[objects.Volume], fence_id: str,
            disks: Sequence[str] = ()) -> None:
    """Note the clients of volumes for a fence that may follow.

    :param disks: ids of disks that have to exist: the clients of all disks of their servers too
    :raises SuperpositionInvalid: a back end cannot fence
    :raises SuperpositionConflict: a disk does not exist
    """
    if disks:
        rpc.call(ctxt, server_disks.backend(), 'fence_disks_observe', disks=disks,
                 fence_id=fence_id)
    for host, ids in reading.by_host(volumes).items():
        rpc.call(ctxt, host, 'fence_observe', volume_ids=ids, fence_id=fence_id)


def close(rpc: rpcapi.SuperAPI, ctxt: Any, volumes: Sequence[objects.Volume], host: str,
          fence_id: str, disks: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Shut the clients of a host out of volumes that have no superposition.

    No client is fenced before all back ends have answered that they can fence.

    :param disks: ids of disks: the host whose clients were noted is shut out of all disks of
        their servers as well
    :returns: the number of fenced clients by volume, then by disk
    :raises SuperpositionInvalid: a back end cannot fence
    :raises SuperpositionConflict: a volume or disk cannot be fenced, and none is
    :raises SuperpositionUnavailable: some volumes may be fenced, others are not
    """
    observe(rpc, ctxt, volumes, fence_id)
    fenced = rpc.call(ctxt, server_disks.backend(), 'fence_disks', disks=disks,
                      fence_id=fence_id) if disks else []
    counts: dict[str, dict[str, Any]] = {}
    for backend, ids in reading.by_host(volumes).items():
        try:
            answers = rpc.call(ctxt, backend, 'fence_host', volume_ids=ids, fenced_host=host,
                               fence_id=fence_id)
        except exception.SuperpositionError as exc:
            if not counts and not fenced:
                raise
            raise exception.SuperpositionUnavailable(
                f'host {host} is shut out of a part of the volumes only: {exc.msg}') from exc
        counts |= {answer['volume_id']: answer for answer in answers}
    return [*(counts[volume.id] for volume in volumes), *fenced]


def release(rpc: rpcapi.SuperAPI, ctxt: Any, boots: Sequence[Mapping[str, Any]]) -> list[str]:
    """Release the fenced clients that boots of their hosts have ended.

    Back ends without the extension have fenced none.

    :raises SuperpositionUnavailable: a back end did not answer; the others have released
    """
    released: set[str] = set()
    failures = []
    for host in reading.hosts():
        try:
            released |= set(rpc.call(ctxt, host, 'release_booted', boots=boots))
        except exception.SuperpositionInvalid:
            LOG.debug('back end %s has no extension, and so no fenced clients', host)
        except exception.SuperpositionError as exc:
            failures.append(exc.msg)
    if failures:
        raise exception.SuperpositionUnavailable(
            f'a part of the clients may stay fenced: {"; ".join(failures)}')
    return sorted(released)


def _answers(key: str, ids: Sequence[str],
             ask: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return a back end's answers about some ids, or those for one that refuses or is silent."""
    try:
        return [{'fenceable': True, 'movable': True, 'cluster': None, **answer}
                for answer in ask()]
    except exception.SuperpositionError as exc:
        fenceable = not isinstance(exc, exception.SuperpositionInvalid)
        return [{key: each, 'eligible': False, 'reasons': [exc.msg], 'fenceable': fenceable,
                 'movable': True, 'cluster': None} for each in ids]
