# SPDX-License-Identifier: Apache-2.0
"""Superpositions across all back ends, as the API sees them.

The notes in Cinder's database name the back ends to call; the answers of the back ends are
authoritative.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import functools
import itertools
import time
from typing import Any

from cinder import context
from cinder import exception as cinder_exception
from cinder import objects
from cinder.common import constants
from oslo_log import log as logging
from oslo_utils import uuidutils

from specreds_cinder import exception
from specreds_cinder import hints
from specreds_cinder import rpcapi
from specreds_cinder import server_disks
from specreds_cinder.api import joined
from specreds_cinder.superposition import states

LOG = logging.getLogger(__name__)


class Superpositions:
    """All superpositions of a cloud.

    Every method acts on behalf of a caller and does not check policies.
    """

    def __init__(self) -> None:
        self._rpc = rpcapi.SuperAPI()

    def create(self, ctxt: Any, volumes: Sequence[objects.Volume], server_id: str | None,
               reason: str, disks: Sequence[str] = ()) -> joined.Superposition:
        """Put all volumes into superposition, or none.

        :param disks: ids of disks of servers
        :raises SuperpositionInvalid: there are disks, and no back end superposes them
        """
        superposition_id = uuidutils.generate_uuid()
        began = time.monotonic()
        view = self._rpc.create(ctxt, superposition_id, volumes, server_id, reason, disks=disks)
        superposition = joined.join(superposition_id, [view], {}, _project_of(volumes))
        return dataclasses.replace(
            superposition,
            durations={**view.get('durations', {}), 'rpc': time.monotonic() - began})

    def get(self, ctxt: Any, superposition_id: str, *,
            brief: bool = False) -> joined.Superposition:
        """Return a superposition.

        :param brief: leave out the sizes of second versions, each of which takes a sweep
        :raises SuperpositionNotFound: the superposition does not exist
        """
        volumes = (hints.volumes(superposition_id) if uuidutils.is_uuid_like(superposition_id)
                   else [])
        superposition = self._joined(ctxt, superposition_id, volumes, brief=brief)
        if superposition is None:
            raise exception.SuperpositionNotFound(
                f'there is no superposition {superposition_id}')
        return superposition

    def list_all(self, ctxt: Any, *, with_disks: bool = False) -> list[joined.Superposition]:
        """Return all superpositions, in the order of their creation.

        The list has no sizes of second versions. A superposition that is only on back ends that
        do not answer is listed in state ``unknown``; one of server disks alone is missing then.

        :param with_disks: insist on the superpositions of server disks
        :raises SuperpositionUnavailable: the back end of server disks does not answer
        """
        noted = hints.everywhere()
        views: dict[str, list[Mapping[str, Any]]] = {}
        silent: dict[str, dict[str, list[str]]] = {}
        for host in _hosts():
            if host not in noted and host != server_disks.configured():
                continue
            try:
                listed = self._rpc.list(ctxt, host)
            except exception.SuperpositionError as exc:
                LOG.warning('superpositions of back end %s are listed without details: %s', host,
                            exc.msg)
                unknown, reason = set(noted.get(host, {}).values()), 'does not answer'
                complete = False
            else:
                for view in listed:
                    if view['state'] != joined.UNKNOWN:
                        views.setdefault(view['id'], []).append(view)
                unknown = {view['id'] for view in listed if view['state'] == joined.UNKNOWN}
                reason, complete = 'cannot read all records', not unknown
            if not complete and with_disks and host == server_disks.configured():
                raise exception.SuperpositionUnavailable(
                    f'back end {host} {reason}, so that superpositions of disks of servers may be '
                    f'missing: repeat the request when it can')
            for superposition_id in unknown:
                silent.setdefault(superposition_id, {})[host] = [
                    volume_id for volume_id, noted_id in noted.get(host, {}).items()
                    if noted_id == superposition_id]
        superpositions = [
            joined.join(superposition_id, views.get(superposition_id, []),
                        hosts := silent.get(superposition_id, {}),
                        _project(volume_id for ids in hosts.values() for volume_id in ids))
            for superposition_id in views | silent]
        return sorted(superpositions, key=lambda superposition: (
            superposition.created_at or '', superposition.id))

    def check(self, ctxt: Any, superposition: joined.Superposition) -> dict[str, Any]:
        """Sweep the volumes of a superposition."""
        report: dict[str, Any] = self._rpc.check(ctxt, superposition.members, superposition.id)
        return report

    def promote(self, ctxt: Any, superposition: joined.Superposition,
                durable: bool) -> dict[str, Any]:
        """Decide for the backup unless the primary has written; return outcome and durations."""
        began = time.monotonic()
        report = self._rpc.collapse(ctxt, superposition.lead, superposition.id, durable)
        return {'outcome': report['outcome'],
                'durations': {**report['durations'], 'rpc': time.monotonic() - began}}

    def abort(self, ctxt: Any, superposition: joined.Superposition) -> dict[str, Any]:
        """Decide for the primary; return outcome and durations."""
        began = time.monotonic()
        self._rpc.abort(ctxt, superposition.lead, superposition.id)
        return {'outcome': states.ABORTED, 'durations': {'rpc': time.monotonic() - began}}

    def merge(self, ctxt: Any, superposition: joined.Superposition, step: str) -> None:
        """Record a step of a hypervisor's merge, or start a merge by the volume service."""
        self._rpc.merge(ctxt, superposition.present, superposition.id, step)

    def connections(self, ctxt: Any, superposition: joined.Superposition,
                    connector: Mapping[str, Any], *,
                    disks_only: bool = False) -> list[dict[str, Any]]:
        """Return the connections with which a hypervisor opens the second versions.

        :param disks_only: only those of disks of servers, also if the second version is the real
            one
        """
        if disks_only:
            return self._rpc.connection(ctxt, server_disks.backend(), superposition.id, connector,
                                        disks=True) if superposition.disks else []
        return [connection for host in superposition.members
                for connection in self._rpc.connection(ctxt, host, superposition.id, connector)]

    def eligibility(self, ctxt: Any, volumes: Sequence[objects.Volume],
                    disks: Sequence[str] = (), host: str | None = None) -> list[dict[str, Any]]:
        """Report which volumes can be superposed, and why others cannot.

        Also report of which ones a host can be shut out: not of those of back ends that have no
        superpositions. A back end that does not answer has not said that it cannot.

        :param disks: ids of disks of servers, which follow
        :param host: the host to be shut out; None for any host. With a host the fsid of the Ceph
            cluster is reported as well, None for a back end that does not answer
        """
        answers_by_id: dict[str, dict[str, Any]] = {}
        more = {'fenced_host': host} if host else {}
        for backend, ids in _by_host(volumes).items():
            answers = _answers('volume_id', ids, functools.partial(
                self._rpc.eligibility, ctxt, backend, ids, **more))
            answers_by_id |= {answer['volume_id']: answer for answer in answers}
        answers = [answers_by_id[volume.id] for volume in volumes] + _answers(
            'disk', disks, lambda: self._rpc.eligibility(ctxt, server_disks.backend(), [], disks)
            if disks else [])
        return [{field: value for field, value in answer.items() if host or field != 'cluster'}
                for answer in answers]

    def observe(self, ctxt: Any, volumes: Sequence[objects.Volume], fence_id: str,
                disks: Sequence[str] = ()) -> None:
        """Note the clients of volumes for a fence that may follow.

        :param disks: ids of disks that have to exist: those of all disks of their servers as well
        :raises SuperpositionInvalid: a back end cannot fence
        :raises SuperpositionConflict: a disk does not exist
        """
        if disks:
            self._rpc.fence_disks_observe(ctxt, disks, fence_id)
        for host, ids in _by_host(volumes).items():
            self._rpc.fence_observe(ctxt, host, ids, fence_id)

    def fence(self, ctxt: Any, volumes: Sequence[objects.Volume], host: str,
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
        self.observe(ctxt, volumes, fence_id)
        fenced = self._rpc.fence_disks(ctxt, disks, fence_id) if disks else []
        counts: dict[str, dict[str, Any]] = {}
        for backend, ids in _by_host(volumes).items():
            try:
                answers = self._rpc.fence_host(ctxt, backend, ids, host, fence_id)
            except exception.SuperpositionError as exc:
                if not counts and not fenced:
                    raise
                raise exception.SuperpositionUnavailable(
                    f'host {host} is shut out of a part of the volumes only: {exc.msg}') from exc
            counts |= {answer['volume_id']: answer for answer in answers}
        return [counts[volume.id] for volume in volumes] + fenced

    def release(self, ctxt: Any, boots: Sequence[Mapping[str, Any]]) -> list[str]:
        """Release the fenced clients that boots of their hosts have ended.

        Back ends without the extension have fenced none.

        :raises SuperpositionUnavailable: a back end did not answer; the others have released
        """
        released: set[str] = set()
        failures = []
        for host in _hosts():
            try:
                released |= set(self._rpc.release_booted(ctxt, host, boots))
            except exception.SuperpositionInvalid:
                LOG.debug('back end %s has no extension, and so no fenced clients', host)
            except exception.SuperpositionError as exc:
                failures.append(exc.msg)
        if failures:
            raise exception.SuperpositionUnavailable(
                f'a part of the clients may stay fenced: {"; ".join(failures)}')
        return sorted(released)

    def _joined(self, ctxt: Any, superposition_id: str, volumes: Sequence[objects.Volume], *,
                brief: bool) -> joined.Superposition | None:
        views: list[Mapping[str, Any]] = []
        silent: dict[str, Sequence[str]] = {}
        noted = _by_host(volumes)
        for host in itertools.chain(list(noted), self._unnoted(noted, views, silent)):
            ids = noted.get(host, [])
            try:
                views.append(self._rpc.get(ctxt, host, superposition_id, brief=brief))
            except exception.SuperpositionNotFound:
                LOG.debug('superposition %s does not exist: the notes on volumes %s are stale',
                          superposition_id, ', '.join(ids))
            except exception.SuperpositionError as exc:
                LOG.warning('superposition %s is shown without its part on back end %s: %s',
                            superposition_id, host, exc.msg)
                silent[host] = ids
        if not views and not silent:
            return None
        return joined.join(superposition_id, views, silent, _project_of(volumes))

    @staticmethod
    def _unnoted(noted: Mapping[str, Any], views: Sequence[Mapping[str, Any]],
                 silent: Mapping[str, Any]) -> Iterator[str]:
        """Yield the back end of server disks, of which there are no notes, if it has a part.

        It is evaluated after all other back ends have been asked.
        """
        host = server_disks.configured()
        if host is None or host in noted:
            return
        if any(host in view['members'] for view in views) or (not views and not silent):
            yield host


def _project_of(volumes: Sequence[objects.Volume]) -> str | None:
    """Return the project of volumes; None without volumes."""
    return volumes[0].project_id if volumes else None


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


def _by_host(volumes: Iterable[objects.Volume]) -> dict[str, list[str]]:
    """Return the ids of volumes by back end.

    :raises SuperpositionInvalid: a volume has no back end
    """
    ids_by_host: dict[str, list[str]] = {}
    for volume in volumes:
        if not volume.host:
            raise exception.SuperpositionInvalid(
                f'volume {volume.id} has no back end: wait until it is created')
        ids_by_host.setdefault(rpcapi.backend(volume), []).append(volume.id)
    return ids_by_host


def _hosts() -> list[str]:
    """Return the names of all back ends, or of their clusters."""
    services = objects.ServiceList.get_all(context.get_admin_context(),
                                           {'topic': constants.VOLUME_TOPIC})
    return list(dict.fromkeys(service.cluster_name or service.host for service in services))


def _project(volume_ids: Iterable[str]) -> str | None:
    """Return the project of the first volume that exists; None if no volume does."""
    for volume_id in volume_ids:
        with contextlib.suppress(cinder_exception.VolumeNotFound):
            project_id: str = objects.Volume.get_by_id(
                context.get_admin_context(), volume_id).project_id
            return project_id
    return None
