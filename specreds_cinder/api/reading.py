# SPDX-License-Identifier: Apache-2.0
"""Superpositions across all back ends, as the API sees them.

The notes in Cinder's database name the back ends to call; the answers of the back ends are
authoritative.
"""

from collections.abc import Iterable, Sequence
import contextlib
from typing import Any

from cinder import context
from cinder import exception as cinder_exception
from cinder import objects
from cinder.common import constants
from oslo_log import log as logging
from oslo_utils import uuidutils

from specreds_cinder import exception
from specreds_cinder import server_disks
from specreds_cinder.api import views
from specreds_cinder.service import hints
from specreds_cinder.service import rpcapi
from specreds_cinder.superposition.truth import states

LOG = logging.getLogger(__name__)


def get(rpc: rpcapi.SuperAPI, ctxt: Any, superposition_id: str, *,
        brief: bool = False) -> views.Superposition:
    """Return a superposition.

    :param brief: leave out the sizes of second versions, each of which takes a sweep
    :raises SuperpositionNotFound: the superposition does not exist
    """
    volumes = (hints.volumes(superposition_id) if uuidutils.is_uuid_like(superposition_id) else [])
    view: views.Answer | None = None
    silent: dict[str, Sequence[str]] = {}
    noted = by_host(volumes)
    for host in dict.fromkeys((*noted, *filter(None, [server_disks.configured()]))):
        # There are no notes of server disks.
        if host not in noted and (view is not None or silent):
            break
        ids = noted.get(host, [])
        try:
            answer = rpc.call(ctxt, host, 'get', superposition_id=superposition_id, brief=brief)
            # Any back end reads the record, and the leader knows most.
            if view is None or answer['lead'] == host:
                view = answer
            if answer['lead'] == host:
                break
        except exception.SuperpositionNotFound:
            LOG.debug('superposition %s does not exist: the notes on volumes %s are stale',
                      superposition_id, ', '.join(ids))
        except exception.SuperpositionError as exc:
            LOG.warning('superposition %s is shown without an answer of back end %s: %s',
                        superposition_id, host, exc.msg)
            silent[host] = ids
    if view is None and not silent:
        raise exception.SuperpositionNotFound(f'there is no superposition {superposition_id}')
    return views.of(superposition_id, view, silent, volumes[0].project_id if volumes else None)


def list_all(rpc: rpcapi.SuperAPI, ctxt: Any, *,
             with_disks: bool = False) -> list[views.Superposition]:
    """Return all superpositions, in the order of their creation.

    The list has no sizes of second versions. A superposition that is only on back ends that
    do not answer is listed in state ``unknown``; one of server disks alone is missing then.

    :param with_disks: insist on the superpositions of server disks
    :raises SuperpositionUnavailable: the back end of server disks does not answer
    """
    noted = hints.everywhere()
    answers: dict[str, views.Answer] = {}
    silent: dict[str, dict[str, list[str]]] = {}
    for host in hosts():
        if host not in noted and host != server_disks.configured():
            continue
        try:
            listed = rpc.call(ctxt, host, 'list')
        except exception.SuperpositionError as exc:
            LOG.warning('superpositions of back end %s are listed without details: %s', host,
                        exc.msg)
            unknown, reason = set(noted.get(host, {}).values()), 'does not answer'
            complete = False
        else:
            for view in listed:
                if view['state'] != states.UNKNOWN and (
                        view['id'] not in answers or view['lead'] == host):
                    answers[view['id']] = view
            unknown = {view['id'] for view in listed if view['state'] == states.UNKNOWN}
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
        views.of(superposition_id, answers.get(superposition_id),
                  silent_ids := silent.get(superposition_id, {}),
                  _project(volume_id for ids in silent_ids.values() for volume_id in ids))
        for superposition_id in answers | silent]
    return sorted(superpositions, key=lambda superposition: (
        superposition.created_at or '', superposition.id))


def by_host(volumes: Iterable[objects.Volume]) -> dict[str, list[str]]:
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


def hosts() -> list[str]:
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
