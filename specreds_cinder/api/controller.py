# SPDX-License-Identifier: Apache-2.0
"""Controller of the REST resource ``os-superpositions``: policy checks and answers."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from cinder import context
from cinder import exception as cinder_exception
from cinder import objects
from cinder.api import common
from cinder.api.openstack import wsgi
from cinder.objects import fields
from oslo_utils import strutils

from specreds_cinder import exception
from specreds_cinder import policies
from specreds_cinder.api import facade
from specreds_cinder.api import joined
from specreds_cinder.api import schemas
from specreds_cinder.api import versions
from specreds_cinder.api import views

_Answer = dict[str, Any]

# Actions on one superposition, and readable views of the collection.
MEMBER_ACTIONS = {'check': 'POST', 'collapse': 'POST', 'merge': 'POST', 'connection': 'POST'}
COLLECTION_ACTIONS = {'detail': 'GET', 'eligibility': 'GET'}


class SuperpositionsController(wsgi.Controller):
    """Answers requests for superpositions."""

    def __init__(self) -> None:
        super().__init__()
        self._superpositions = facade.Superpositions()

    @versions.negotiated
    @schemas.query(schemas.LIST)
    def index(self, req: wsgi.Request, query: dict[str, str]) -> _Answer:
        """Return a summary of each superposition."""
        return self._page(req, query, full=False)

    @versions.negotiated
    @schemas.query(schemas.LIST)
    def detail(self, req: wsgi.Request, query: dict[str, str]) -> _Answer:
        """Return all fields of each superposition."""
        return self._page(req, query, full=True)

    @versions.negotiated
    @schemas.query(schemas.SHOW)
    def show(self, req: wsgi.Request, id: str, query: dict[str, str]) -> _Answer:
        """Return all fields of a superposition."""
        ctxt = req.environ['cinder.context']
        return {'superposition': views.detail(self._visible(ctxt, id), admin=ctxt.is_admin)}

    @versions.negotiated
    @schemas.query(schemas.ELIGIBILITY, 'volume_id')
    def eligibility(self, req: wsgi.Request, query: dict[str, list[str]]) -> _Answer:
        """Report which volumes can be superposed."""
        ctxt = req.environ['cinder.context']
        volumes = _volumes(ctxt, query['volume_id'], policies.ELIGIBILITY)
        for volume in volumes:
            policies.authorize(ctxt, policies.ELIGIBILITY, volume.project_id)
        return {'eligibility': self._superpositions.eligibility(ctxt, volumes)}

    @wsgi.response(HTTPStatus.CREATED)
    @versions.negotiated
    @schemas.body(schemas.CREATE)
    def create(self, req: wsgi.Request, body: Any) -> _Answer:
        """Put volumes into superposition."""
        ctxt = req.environ['cinder.context']
        asked = body['superposition']
        server_id = asked.get('server_id')
        volume_ids = _wanted(asked.get('volume_ids'), server_id)
        volumes = _volumes(ctxt, volume_ids, policies.CREATE)
        projects = {volume.project_id for volume in volumes}
        for project_id in projects:
            policies.authorize(ctxt, policies.CREATE, project_id)
        if len(projects) > 1:
            raise exception.SuperpositionInvalid(
                f'volumes {", ".join(volume_ids)} belong to several projects: superpose those '
                f'of each project separately')
        found = self._superpositions.create(ctxt, volumes, server_id, asked.get('reason', ''))
        return {'superposition': views.detail(found, admin=ctxt.is_admin)}

    @versions.negotiated
    @schemas.body(schemas.CHECK)
    def check(self, req: wsgi.Request, id: str, body: Any) -> _Answer:
        """Report whether the primary has written."""
        ctxt = req.environ['cinder.context']
        found = self._visible(ctxt, id, policies.CHECK)
        return {'check': self._superpositions.check(ctxt, found)}

    @versions.negotiated
    @schemas.body(schemas.COLLAPSE)
    def collapse(self, req: wsgi.Request, id: str, body: Any) -> _Answer | wsgi.ResponseObject:
        """Decide which version is the real one."""
        ctxt = req.environ['cinder.context']
        asked = body['collapse']
        found = self._visible(ctxt, id, policies.COLLAPSE)
        try:
            if asked['decision'] == 'promote':
                report = self._superpositions.promote(ctxt, found,
                                                      asked.get('backup_durable', False))
            else:
                report = self._superpositions.abort(ctxt, found)
        except exception.SuperpositionPending:
            return wsgi.ResponseObject(
                {'collapse': {'outcome': None, 'state': self._state(ctxt, found)}},
                code=HTTPStatus.ACCEPTED)
        return {'collapse': report}

    @wsgi.response(HTTPStatus.ACCEPTED)
    @versions.negotiated
    @schemas.body(schemas.MERGE)
    def merge(self, req: wsgi.Request, id: str, body: Any) -> None:
        """Control the merge of a promoted version."""
        ctxt = req.environ['cinder.context']
        found = self._visible(ctxt, id, policies.MERGE)
        self._superpositions.merge(ctxt, found, body['merge']['step'])

    @versions.negotiated
    @schemas.body(schemas.CONNECTION)
    def connection(self, req: wsgi.Request, id: str, body: Any) -> _Answer:
        """Return the connections with which a hypervisor opens the second versions."""
        ctxt = req.environ['cinder.context']
        found = self._visible(ctxt, id, policies.CONNECTION)
        return {'connections': self._superpositions.connections(ctxt, found, body['connector'])}

    @wsgi.response(HTTPStatus.NO_CONTENT)
    @versions.negotiated
    def delete(self, req: wsgi.Request, id: str) -> wsgi.ResponseObject | None:
        """Drop the second versions."""
        ctxt = req.environ['cinder.context']
        try:
            self._superpositions.abort(ctxt, self._visible(ctxt, id, policies.DELETE))
        except exception.SuperpositionPending:
            return wsgi.ResponseObject(None, code=HTTPStatus.ACCEPTED)
        return None

    def _visible(self, ctxt: Any, superposition_id: str,
                 rule: str | None = None) -> joined.Superposition:
        """Return a superposition that the caller may see.

        :param rule: another rule that has to permit the request
        :raises SuperpositionNotFound: the superposition does not exist, or the caller may not
            see it
        :raises PolicyNotAuthorized: the other rule forbids the request
        :raises SuperpositionUnavailable: there is another rule, and the state is unknown
        """
        found = self._superpositions.get(ctxt, superposition_id)
        if not policies.allows(ctxt, policies.GET, found.project_id):
            raise exception.SuperpositionNotFound(
                f'there is no superposition {superposition_id}')
        if rule is not None:
            policies.authorize(ctxt, rule, found.project_id)
            if found.state == joined.UNKNOWN:
                raise exception.SuperpositionUnavailable(
                    f'the state of superposition {superposition_id} is unknown, because its '
                    f'volume service does not answer: repeat the request when the service is up')
        return found

    def _state(self, ctxt: Any, found: joined.Superposition) -> str:
        """Return the current state of a superposition, or the given one if that fails."""
        try:
            return self._superpositions.get(ctxt, found.id).state
        except exception.SuperpositionError:
            return found.state

    def _page(self, req: wsgi.Request, query: dict[str, str], *, full: bool) -> _Answer:
        ctxt = req.environ['cinder.context']
        everybodys = strutils.bool_from_string(query.get('all_tenants', '0'))
        policies.authorize(ctxt, policies.GET_ALL_TENANTS if everybodys else policies.GET_ALL,
                           ctxt.project_id)
        found = self._superpositions.list_all(ctxt)
        unreachable = sorted({host for one in found for host in one.unreachable})
        meant = [one for one in found if _meets(one, query) and (
            everybodys or one.project_id == ctxt.project_id)]
        marker, limit, _offset = common.get_pagination_params(dict(query))
        if marker is not None:
            meant = _after(marker, meant)
        some = meant[:limit]
        if full:
            shown = [views.detail(self._in_full(ctxt, one), admin=ctxt.is_admin) for one in some]
        else:
            shown = [views.summary(one) for one in some]
        path = f'{views.COLLECTION}/detail' if full else views.COLLECTION
        return views.page(req, shown, more=bool(some) and len(meant) > len(some), path=path,
                          unreachable=unreachable if ctxt.is_admin else None)

    def _in_full(self, ctxt: Any, found: joined.Superposition) -> joined.Superposition:
        """Return all fields of a listed superposition; those of the list if it has ended."""
        try:
            return self._superpositions.get(ctxt, found.id)
        except exception.SuperpositionNotFound:
            return found


def _meets(found: joined.Superposition, query: dict[str, str]) -> bool:
    """Report whether a superposition meets the filters of a query."""
    return ((query.get('state') in (None, found.state))
            and query.get('server_id') in (None, found.server_id)
            and query.get('volume_id') in (None, *(volume.id for volume in found.volumes)))


def _after(marker: str, found: Sequence[joined.Superposition]) -> list[joined.Superposition]:
    """Return the superpositions that follow a marker in a list.

    :raises SuperpositionInvalid: the marker is not in the list
    """
    ids = [one.id for one in found]
    if marker not in ids:
        raise exception.SuperpositionInvalid(
            f'marker {marker} is not in this list, or its superposition has ended: start again '
            f'without a marker')
    return list(found[ids.index(marker) + 1:])


def _wanted(volume_ids: Sequence[str] | None, server_id: str | None) -> Sequence[str]:
    """Return the ids of the volumes that a request names directly or by their server.

    :raises SuperpositionInvalid: a volume is not attached to the server, or no volume is
    """
    if server_id is None:
        return volume_ids or ()
    attached = {attachment.volume_id for attachment
                in objects.VolumeAttachmentList.get_all_by_instance_uuid(
                    context.get_admin_context(), server_id)
                if attachment.attach_status == fields.VolumeAttachStatus.ATTACHED}
    if volume_ids is None:
        if not attached:
            raise exception.SuperpositionInvalid(f'server {server_id} has no volumes attached')
        return sorted(attached)
    others = [volume_id for volume_id in volume_ids if volume_id not in attached]
    if others:
        raise exception.SuperpositionInvalid(
            f'volumes {", ".join(others)} are not attached to server {server_id}')
    return volume_ids


def _volumes(ctxt: Any, volume_ids: Sequence[str], rule: str) -> list[objects.Volume]:
    """Return volumes that the caller may see.

    :param rule: the rule that permits the caller to see volumes of other projects
    :raises VolumeNotFound: a volume does not exist, or the caller may not see it
    """
    # In one query: a server may have many volumes, and its recovery waits for the answer.
    known = {volume.id: volume for volume in objects.VolumeList.get_all(
        context.get_admin_context(), filters={'id': list(volume_ids)})}
    seen = {project_id: project_id == ctxt.project_id or policies.allows(ctxt, rule, project_id)
            for project_id in {volume.project_id for volume in known.values()}}
    for volume_id in volume_ids:
        if volume_id not in known or not seen[known[volume_id].project_id]:
            raise cinder_exception.VolumeNotFound(volume_id=volume_id)
    return [known[volume_id] for volume_id in volume_ids]
