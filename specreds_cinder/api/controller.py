# SPDX-License-Identifier: Apache-2.0
"""The REST resource ``os-superpositions``: who may ask for what, and how it is answered."""

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

# Actions on one superposition, and what else there is to read beside them.
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
        """List superpositions, the least of each."""
        return self._page(req, query, full=False)

    @versions.negotiated
    @schemas.query(schemas.LIST)
    def detail(self, req: wsgi.Request, query: dict[str, str]) -> _Answer:
        """List superpositions, all of each."""
        return self._page(req, query, full=True)

    @versions.negotiated
    @schemas.query(schemas.SHOW)
    def show(self, req: wsgi.Request, id: str, query: dict[str, str]) -> _Answer:
        """Show a superposition."""
        ctxt = req.environ['cinder.context']
        return {'superposition': views.detail(self._visible(ctxt, id), admin=ctxt.is_admin)}

    @versions.negotiated
    @schemas.query(schemas.ELIGIBILITY, 'volume_id')
    def eligibility(self, req: wsgi.Request, query: dict[str, list[str]]) -> _Answer:
        """Tell of volumes whether they can be superposed."""
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
                f'volumes {", ".join(volume_ids)} are of several projects: they can only be '
                f'superposed apart')
        found = self._superpositions.create(ctxt, volumes, server_id, asked.get('reason', ''))
        return {'superposition': views.detail(found, admin=ctxt.is_admin)}

    @versions.negotiated
    @schemas.body(schemas.CHECK)
    def check(self, req: wsgi.Request, id: str, body: Any) -> _Answer:
        """Tell whether the primary has written."""
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
        """Steer the merge of what was promoted."""
        ctxt = req.environ['cinder.context']
        found = self._visible(ctxt, id, policies.MERGE)
        self._superpositions.merge(ctxt, found, body['merge']['step'])

    @versions.negotiated
    @schemas.body(schemas.CONNECTION)
    def connection(self, req: wsgi.Request, id: str, body: Any) -> _Answer:
        """Hand out what a hypervisor needs to open the second versions."""
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
        """Find a superposition that the caller may know of.

        :param rule: what he may do with it, too
        :raises SuperpositionNotFound: there is none, for him
        """
        found = self._superpositions.get(ctxt, superposition_id)
        if not policies.allows(ctxt, policies.GET, found.project_id):
            raise exception.SuperpositionNotFound(
                f'there is no superposition {superposition_id}')
        if rule is not None:
            policies.authorize(ctxt, rule, found.project_id)
            if found.state == joined.UNKNOWN:
                raise exception.SuperpositionUnavailable(
                    f'the volume service of superposition {superposition_id} does not answer, so '
                    f'its state is unknown; nothing is lost: ask again when it is up')
        return found

    def _state(self, ctxt: Any, found: joined.Superposition) -> str:
        """Tell how far it is now; as it was if it has gone meanwhile."""
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
        """Find out what a list does not tell; as listed if it has gone meanwhile."""
        try:
            return self._superpositions.get(ctxt, found.id)
        except exception.SuperpositionNotFound:
            return found


def _meets(found: joined.Superposition, query: dict[str, str]) -> bool:
    """Tell whether a superposition meets the filters of a query."""
    return ((query.get('state') in (None, found.state))
            and query.get('server_id') in (None, found.server_id)
            and query.get('volume_id') in (None, *(volume.id for volume in found.volumes)))


def _after(marker: str, found: Sequence[joined.Superposition]) -> list[joined.Superposition]:
    """Give what comes after a page that ended with an id.

    :raises SuperpositionInvalid: it is not in the list (any more)
    """
    ids = [one.id for one in found]
    if marker not in ids:
        raise exception.SuperpositionInvalid(
            f'marker {marker} is in no list like this one (any more): begin anew')
    return list(found[ids.index(marker) + 1:])


def _wanted(volume_ids: Sequence[str] | None, server_id: str | None) -> Sequence[str]:
    """Give the ids of the volumes that a request means.

    :raises SuperpositionInvalid: they are not (all) attached to the server that it names
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
    """Find volumes that the caller may know of.

    :param rule: what makes other projects' volumes known to him
    :raises VolumeNotFound: there are not, for him
    """
    # All at once: a host has many volumes, and its servers wait.
    known = {volume.id: volume for volume in objects.VolumeList.get_all(
        context.get_admin_context(), filters={'id': list(volume_ids)})}
    seen = {project_id: project_id == ctxt.project_id or policies.allows(ctxt, rule, project_id)
            for project_id in {volume.project_id for volume in known.values()}}
    for volume_id in volume_ids:
        if volume_id not in known or not seen[known[volume_id].project_id]:
            raise cinder_exception.VolumeNotFound(volume_id=volume_id)
    return [known[volume_id] for volume_id in volume_ids]
