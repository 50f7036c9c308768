# SPDX-License-Identifier: Apache-2.0
"""Controller of the REST resource ``os-superpositions``: policy checks and answers."""

from collections.abc import Mapping, Sequence
import datetime
from http import HTTPStatus
import ipaddress
import time
from typing import Any

from cinder import context
from cinder import exception as cinder_exception
from cinder import objects
from cinder.api import common
from cinder.api.openstack import wsgi
from cinder.objects import fields
from oslo_utils import strutils
from oslo_utils import timeutils
from oslo_utils import uuidutils

from specreds_cinder import exception
from specreds_cinder import server_disks
from specreds_cinder.api import fencing
from specreds_cinder.api import policies
from specreds_cinder.api import reading
from specreds_cinder.api import schemas
from specreds_cinder.api import versions
from specreds_cinder.api import views
from specreds_cinder.service import rpcapi
from specreds_cinder.superposition.truth import states

_Answer = dict[str, Any]

# Actions on one superposition, and those on the collection.
MEMBER_ACTIONS = {'check': 'POST', 'collapse': 'POST', 'merge': 'POST', 'connection': 'POST'}
COLLECTION_ACTIONS = {'detail': 'GET', 'eligibility': 'GET', 'fence': 'POST',
                      'release': 'POST', 'versions': 'GET'}
# A decision continues, although its caller has no answer yet.
_UNDER_WAY = (exception.SuperpositionPending, rpcapi.TookTooLong)


class SuperpositionsController(wsgi.Controller):
    """Answers requests for superpositions."""

    def __init__(self) -> None:
        super().__init__()
        self._rpc = rpcapi.SuperAPI()

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
        sizes = strutils.bool_from_string(query.get('sizes', '1'))
        return {'superposition': views.detail(self._visible(ctxt, id, sizes=sizes),
                                              admin=ctxt.is_admin)}

    @versions.negotiated
    @schemas.query(schemas.ELIGIBILITY, 'volume_id', 'disk')
    def eligibility(self, req: wsgi.Request, query: dict[str, Any]) -> _Answer:
        """Report which volumes can be superposed."""
        ctxt = req.environ['cinder.context']
        disks = query.get('disk', [])
        if disks:
            policies.authorize(ctxt, policies.SERVER_DISKS, None)
        volumes = _volumes(ctxt, query.get('volume_id', []), policies.ELIGIBILITY)
        for volume in volumes:
            policies.authorize(ctxt, policies.ELIGIBILITY, volume.project_id)
        host = query.get('host')
        if host is not None:
            policies.authorize(ctxt, policies.FENCE, None)
        return {'eligibility': fencing.eligibility(self._rpc, ctxt, volumes, disks, host)}

    @wsgi.response(HTTPStatus.CREATED)
    @versions.negotiated
    @schemas.body(schemas.CREATE)
    def create(self, req: wsgi.Request, body: Any) -> _Answer:
        """Put volumes into superposition."""
        ctxt = req.environ['cinder.context']
        attributes = body['superposition']
        server_id = attributes.get('server_id')
        disks = _disks(ctxt, attributes)
        volume_ids = _wanted(attributes.get('volume_ids'), server_id, enough=bool(disks))
        volumes = _volumes(ctxt, volume_ids, policies.CREATE)
        projects = {volume.project_id for volume in volumes}
        for project_id in projects:
            policies.authorize(ctxt, policies.CREATE, project_id)
        if len(projects) > 1:
            raise exception.SuperpositionInvalid(
                f'volumes {", ".join(volume_ids)} belong to several projects: superpose those '
                f'of each project separately')
        more_arguments = {}
        if 'dead_host' in attributes:
            # Its clients are fenced at once.
            for project_id in projects or {None}:
                policies.authorize(ctxt, policies.FENCE, project_id)
            more_arguments['dead_host'] = attributes['dead_host']
        wanted = [{'id': volume.id, 'host': rpcapi.backend(volume)} for volume in volumes]
        more = [{'id': disk, 'host': server_disks.backend()} for disk in disks]
        superposition_id = uuidutils.generate_uuid()
        began = time.monotonic()
        # The back end of the first volume leads.
        view = self._rpc.call(
            ctxt, (wanted + more)[0]['host'], 'create', superposition_id=superposition_id,
            volumes=wanted, server_id=server_id, reason=attributes.get('reason', ''), disks=more,
            **more_arguments)
        superposition = views.of(superposition_id, view, {}, next(iter(projects), None))
        durations = {**view.get('durations', {}), 'rpc': time.monotonic() - began}
        return {'superposition': views.detail(superposition, admin=ctxt.is_admin,
                                              durations=durations)}

    @versions.negotiated
    @schemas.body(schemas.CHECK)
    def check(self, req: wsgi.Request, id: str, body: Any) -> _Answer:
        """Report whether the primary has written."""
        ctxt = req.environ['cinder.context']
        superposition = self._visible(ctxt, id, policies.CHECK)
        return {'check': self._rpc.call(ctxt, superposition.lead, 'check',
                                        superposition_id=superposition.id)}

    @versions.negotiated
    @schemas.body(schemas.COLLAPSE)
    def collapse(self, req: wsgi.Request, id: str, body: Any) -> _Answer | wsgi.ResponseObject:
        """Decide which version is the real one."""
        ctxt = req.environ['cinder.context']
        decision = body['collapse']
        superposition = self._visible(ctxt, id, policies.COLLAPSE)
        began = time.monotonic()
        try:
            if decision['decision'] == 'promote':
                report = self._rpc.call(ctxt, superposition.lead, 'promote',
                                        superposition_id=superposition.id,
                                        durable=decision.get('backup_durable', False))
            else:
                self._abort(ctxt, superposition)
                report = {'outcome': states.ABORTED, 'durations': {}}
        except _UNDER_WAY:
            return wsgi.ResponseObject(
                {'collapse': {'outcome': None, 'state': self._state(ctxt, superposition)}},
                code=HTTPStatus.ACCEPTED)
        return {'collapse': {'outcome': report['outcome'], 'durations': {
            **report['durations'], 'rpc': time.monotonic() - began}}}

    @wsgi.response(HTTPStatus.ACCEPTED)
    @versions.negotiated
    @schemas.body(schemas.MERGE)
    def merge(self, req: wsgi.Request, id: str, body: Any) -> None:
        """Control the merge of a promoted version."""
        ctxt = req.environ['cinder.context']
        superposition = self._visible(ctxt, id, policies.MERGE)
        self._rpc.call(ctxt, superposition.lead, 'merge', superposition_id=superposition.id,
                       step=body['merge']['step'])

    @versions.negotiated
    @schemas.body(schemas.CONNECTION)
    def connection(self, req: wsgi.Request, id: str, body: Any) -> _Answer:
        """Return the connections with which a hypervisor opens the second versions."""
        ctxt = req.environ['cinder.context']
        superposition = self._visible(ctxt, id, policies.CONNECTION)
        hosts, more = superposition.members, {}
        if body.get('disks_only', False):
            # Also if the second version is the real one.
            hosts, more = (server_disks.backend(),) if superposition.disks else (), {'disks': True}
        return {'connections': [
            connection for host in hosts for connection in self._rpc.call(
                ctxt, host, 'connection', superposition_id=superposition.id,
                connector=body['connector'], **more)]}

    @versions.negotiated
    @schemas.body(schemas.FENCE)
    def fence(self, req: wsgi.Request, body: Any) -> _Answer:
        """Shut the clients of a host out of volumes that have no superposition."""
        ctxt = req.environ['cinder.context']
        request = body['fence']
        disks = _disks(ctxt, request)
        volumes = _volumes(ctxt, request.get('volume_ids', []), policies.FENCE)
        # Cinder does not know the project of a server.
        for project_id in {volume.project_id for volume in volumes} or {None}:
            policies.authorize(ctxt, policies.FENCE, project_id)
        answer = {name: request[name] for name in ('fence_id', 'host', 'step')}
        if request['step'] == 'observe':
            fencing.observe(self._rpc, ctxt, volumes, request['fence_id'], disks)
            return {'fence': {**answer, 'volumes': None}}
        return {'fence': {**answer, 'volumes': fencing.close(
            self._rpc, ctxt, volumes, request['host'], request['fence_id'], disks)}}

    @versions.negotiated
    @schemas.body(schemas.RELEASE)
    def release(self, req: wsgi.Request, body: Any) -> _Answer:
        """Release the fenced clients that boots of their hosts have ended."""
        received = timeutils.utcnow(with_timezone=True)
        ctxt = req.environ['cinder.context']
        policies.authorize(ctxt, policies.RELEASE, ctxt.project_id)
        boots = [_boot(boot, received) for boot in body['release']['boots']]
        return {'release': {'clients': fencing.release(self._rpc, ctxt, boots)}}

    @wsgi.response(HTTPStatus.NO_CONTENT)
    @versions.negotiated
    def delete(self, req: wsgi.Request, id: str) -> wsgi.ResponseObject | None:
        """Drop the second versions."""
        ctxt = req.environ['cinder.context']
        try:
            self._abort(ctxt, self._visible(ctxt, id, policies.DELETE))
        except _UNDER_WAY:
            return wsgi.ResponseObject(None, code=HTTPStatus.ACCEPTED)
        return None

    # The last one of the actions: it hides the module of that name from decorators.
    def versions(self, req: wsgi.Request) -> _Answer:
        """List the versions of the resource, whichever the request selects."""
        return {'versions': [versions.DESCRIPTION]}

    def _visible(self, ctxt: Any, superposition_id: str, rule: str | None = None, *,
                 sizes: bool = False) -> views.Superposition:
        """Return a superposition that the caller may see.

        :param rule: another rule that has to permit the request
        :param sizes: include the sizes of second versions, each of which takes a sweep
        :raises SuperpositionNotFound: the superposition does not exist, or the caller may not
            see it
        :raises PolicyNotAuthorized: the other rule forbids the request
        :raises SuperpositionUnavailable: there is another rule, and the state is unknown
        """
        superposition = reading.get(self._rpc, ctxt, superposition_id, brief=not sizes)
        if not policies.allows(ctxt, policies.GET, superposition.project_id):
            raise exception.SuperpositionNotFound(f'there is no superposition {superposition_id}')
        if rule is not None:
            policies.authorize(ctxt, rule, superposition.project_id)
            if superposition.state == states.UNKNOWN:
                raise exception.SuperpositionUnavailable(
                    f'the state of superposition {superposition_id} is unknown, because its '
                    f'volume service does not answer: repeat the request when the service is up')
        return superposition

    def _abort(self, ctxt: Any, superposition: views.Superposition) -> None:
        self._rpc.call(ctxt, superposition.lead, 'abort', superposition_id=superposition.id)

    def _state(self, ctxt: Any, superposition: views.Superposition) -> str:
        """Return the current state of a superposition, or the former one if that fails."""
        try:
            return reading.get(self._rpc, ctxt, superposition.id, brief=True).state
        except exception.SuperpositionError:
            return superposition.state

    def _page(self, req: wsgi.Request, query: dict[str, str], *, full: bool) -> _Answer:
        ctxt = req.environ['cinder.context']
        all_tenants = strutils.bool_from_string(query.get('all_tenants', '0'))
        policies.authorize(ctxt, policies.GET_ALL_TENANTS if all_tenants else policies.GET_ALL,
                           ctxt.project_id)
        # No volume has a note of a server's disks: without their back end, the answer "none" could
        # be wrong, and a caller would open the wrong version.
        superpositions = reading.list_all(self._rpc, ctxt, with_disks='server_id' in query)
        unreachable = sorted({host for superposition in superpositions
                              for host in superposition.unreachable})
        matching = [superposition for superposition in superpositions
                    if _meets(superposition, query) and (
                        all_tenants or superposition.project_id == ctxt.project_id)]
        marker, limit, _offset = common.get_pagination_params(dict(query))
        if marker is not None:
            matching = _after(marker, matching)
        page = matching[:limit]
        if full:
            if strutils.bool_from_string(query.get('sizes', '0')):
                page = [self._measured(ctxt, superposition) for superposition in page]
            shown = [views.detail(superposition, admin=ctxt.is_admin) for superposition in page]
        else:
            shown = [views.summary(superposition) for superposition in page]
        path = f'{views.COLLECTION}/detail' if full else views.COLLECTION
        return views.page(req, shown, more=bool(page) and len(matching) > len(page),
                          path=path, unreachable=unreachable if ctxt.is_admin else None)

    def _measured(self, ctxt: Any, superposition: views.Superposition) -> views.Superposition:
        """Return a listed superposition with its sizes; unchanged if it has ended."""
        try:
            return reading.get(self._rpc, ctxt, superposition.id)
        except exception.SuperpositionNotFound:
            return superposition


def _meets(superposition: views.Superposition, query: dict[str, str]) -> bool:
    """Report whether a superposition meets the filters of a query."""
    return ((query.get('state') in (None, superposition.state))
            and query.get('server_id') in (None, superposition.server_id)
            and query.get('volume_id') in (
                None, *(volume['id'] for volume in superposition.volumes)))


def _after(marker: str,
           superpositions: Sequence[views.Superposition]) -> list[views.Superposition]:
    """Return the superpositions that follow a marker in a list.

    :raises SuperpositionInvalid: the marker is not in the list
    """
    ids = [superposition.id for superposition in superpositions]
    if marker not in ids:
        raise exception.SuperpositionInvalid(
            f'marker {marker} is not in this list, or its superposition has ended: start again '
            f'without a marker')
    return list(superpositions[ids.index(marker) + 1:])


def _disks(ctxt: Any, request: Mapping[str, Any]) -> list[str]:
    """Return the ids of the disks of a server that a request names.

    :raises PolicyNotAuthorized: there are disks, and the caller may not name them
    """
    names = request.get('disks', ())
    if names:
        policies.authorize(ctxt, policies.SERVER_DISKS, None)
    return [server_disks.ServerDisk(request['server_id'].lower(), name).id for name in names]


def _wanted(volume_ids: Sequence[str] | None, server_id: str | None, *,
            enough: bool) -> Sequence[str]:
    """Return the ids of the volumes that a request names directly or by their server.

    :param enough: no volumes are needed, because the request names disks
    :raises SuperpositionInvalid: a volume is not attached to the server, or no volume is
    """
    if server_id is None:
        return volume_ids or ()
    attached = {attachment.volume_id for attachment
                in objects.VolumeAttachmentList.get_all_by_instance_uuid(
                    context.get_admin_context(), server_id)
                if attachment.attach_status == fields.VolumeAttachStatus.ATTACHED}
    if volume_ids is None:
        if not attached and not enough:
            raise exception.SuperpositionInvalid(f'server {server_id} has no volumes attached')
        return sorted(attached)
    others = [volume_id for volume_id in volume_ids if volume_id not in attached]
    if others:
        raise exception.SuperpositionInvalid(
            f'volumes {", ".join(others)} are not attached to server {server_id}')
    return volume_ids


def _boot(boot: Mapping[str, Any], received: datetime.datetime) -> dict[str, Any]:
    """Return the addresses of a host, and the time of its boot by the clock of this service.

    The clients were fenced at times of this clock, too. The clock of the caller may be wrong.

    :param received: time at which the request was received
    :raises ValidationError: an address is malformed
    """
    try:
        for text in boot['addresses']:
            ipaddress.ip_address(text)
    except ValueError as exc:
        raise cinder_exception.ValidationError(
            detail=f'Invalid input for release.boots: {exc}') from exc
    booted_at = received - datetime.timedelta(seconds=boot['age_seconds'])
    return {'addresses': boot['addresses'], 'booted_at': booted_at.isoformat()}


def _volumes(ctxt: Any, volume_ids: Sequence[str], rule: str) -> list[objects.Volume]:
    """Return volumes that the caller may see.

    :param rule: the rule that permits the caller to see volumes of other projects
    :raises VolumeNotFound: a volume does not exist, or the caller may not see it
    """
    if not volume_ids:
        return []
    # In one query: a server may have many volumes, and its recovery waits for the answer.
    known = {volume.id: volume for volume in objects.VolumeList.get_all(
        context.get_admin_context(), filters={'id': list(volume_ids)})}
    seen = {project_id: project_id == ctxt.project_id or policies.allows(ctxt, rule, project_id)
            for project_id in {volume.project_id for volume in known.values()}}
    for volume_id in volume_ids:
        if volume_id not in known or not seen[known[volume_id].project_id]:
            raise cinder_exception.VolumeNotFound(volume_id=volume_id)
    return [known[volume_id] for volume_id in volume_ids]
