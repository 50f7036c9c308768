# SPDX-License-Identifier: Apache-2.0
"""Attachments with the connection to the real version of their volume.

Cinder returns the connection that it stored when the volume was attached. After a promotion or a
merge, that connection leads to the wrong version of the volume, which a hypervisor must neither
read nor write.

Until a superposition is decided, no other volume is attached to its server: the backup would lack
the volume.
"""

from collections.abc import Iterable, Iterator, Mapping
import contextlib
from typing import Any

from cinder import context
from cinder import exception as cinder_exception
from cinder import objects
from cinder.api.openstack import wsgi
from oslo_log import log as logging
from oslo_utils import uuidutils

from specreds_cinder import exception
from specreds_cinder.api.guards import check
from specreds_cinder.service import at_rest
from specreds_cinder.service import eligibility
from specreds_cinder.service import hints
from specreds_cinder.service import rpcapi
from specreds_cinder.superposition.truth import states

LOG = logging.getLogger(__name__)

# The same as in the driver, whose imports cinder-api does not need.
CONNECTION_TYPE = 'rbd_super'

# Keys that Cinder adds to a driver's connection; they are the same for both versions.
_CINDERS = ('access_mode', 'attachment_id', 'cacheable', 'encrypted', 'enforce_multipath',
            'qos_specs')
# In these states the server runs, or will run, with all of its volumes.
_HARMLESS = states.DECIDED | {states.ABORTING}

_Info = dict[str, Any]


class AttachmentsController(wsgi.Controller):
    """Corrects the answers of Cinder's own controller."""

    def __init__(self) -> None:
        super().__init__()
        self._rpc = rpcapi.SuperAPI()

    @wsgi.extends
    def create(self, req: wsgi.Request, body: Any = None) -> Iterator[None]:
        """Refuse to attach another volume to a server with undecided superpositions.

        A user or Cinder may have begun to change a promoted volume since the decision. If Nova
        attaches the volume to another host, the change ends: its client is fenced.

        :raises ServerSuperposed: a volume of the server is in a superposition that is not decided
        :raises SuperpositionUnavailable: a volume of the server may be in one, but its volume
            service is silent
        """
        try:
            with check.unsuperposed(req.environ['cinder.context'], _others(body),
                                    'joined by another volume of its server',
                                    allowed=_HARMLESS):
                self._restore(req, body)
                yield
        except exception.VolumeSuperposed as exc:
            raise exception.ServerSuperposed(exc.msg, state=exc.state) from exc

    def _restore(self, req: wsgi.Request, body: Any) -> None:
        """Make a promoted volume ``in-use`` of the server to which it is to be attached."""
        for volume_id, server_id in _wanted(body):
            noted = hints.of(volume_id)
            if noted is None:
                continue
            # Nobody changes a volume of another project.
            volume = objects.Volume.get_by_id(req.environ['cinder.context'], volume_id)
            if not at_rest.restorable(volume) or server_id not in {
                    attachment.instance_uuid for attachment in volume.volume_attachment}:
                continue
            with contextlib.suppress(exception.SuperpositionNotFound):
                state = self._rpc.call(
                    req.environ['cinder.context'], rpcapi.backend(volume), 'get',
                    superposition_id=noted, brief=True)['state']
                if state in states.DECIDED:
                    eligibility.restore([volume])

    @wsgi.extends
    def show(self, req: wsgi.Request, resp_obj: wsgi.ResponseObject, id: str) -> None:
        """Correct one attachment.

        :raises SuperpositionUnavailable: the volume service cannot name the real version
        """
        attachment = resp_obj.obj['attachment']
        attachment['connection_info'] = self._current(req, attachment, hand_out=True)

    @wsgi.extends
    def detail(self, req: wsgi.Request, resp_obj: wsgi.ResponseObject) -> None:
        """Correct a list of attachments; an unknown connection is left empty."""
        for attachment in resp_obj.obj['attachments']:
            try:
                # The reader of a list does not connect to the volumes, so merges may go ahead.
                attachment['connection_info'] = self._current(req, attachment, hand_out=False)
            except (exception.SuperpositionError, cinder_exception.NotFound) as exc:
                LOG.warning('attachment %s is listed without its connection_info: %s',
                            attachment['id'], exc.msg)
                attachment['connection_info'] = {}

    def _current(self, req: wsgi.Request, attachment: Mapping[str, Any], *,
                 hand_out: bool) -> _Info:
        stored: _Info = attachment['connection_info']
        if not stored or (stored.get('driver_volume_type') != CONNECTION_TYPE
                          and hints.of(attachment['volume_id']) is None):
            return stored
        admin = context.get_admin_context()
        connector = objects.VolumeAttachment.get_by_id(admin, attachment['id']).connector or {}
        volume = objects.Volume.get_by_id(admin, attachment['volume_id'])
        info = self._rpc.call(req.environ['cinder.context'], rpcapi.backend(volume),
                              'current_connection', volume_id=volume.id, connector=connector,
                              hand_out=hand_out)
        return {**{key: stored[key] for key in _CINDERS if key in stored},
                'driver_volume_type': info['driver_volume_type'], **info['data']}


def _others(body: Any) -> Iterable[str]:
    """Return the volumes of the server to which a volume without a superposition is attached."""
    return sorted({attachment.volume_id for volume, server in _wanted(body)
                   if hints.of(volume) is None for attachment
                   in objects.VolumeAttachmentList.get_all_by_instance_uuid(
                       context.get_admin_context(), server)})


def _wanted(body: Any) -> Iterator[tuple[str, str]]:
    """Yield the volume and the server of a request for an attachment, unless it is malformed."""
    wanted = body.get('attachment') if isinstance(body, dict) else None
    if not isinstance(wanted, dict):
        return
    server, volume = wanted.get('instance_uuid'), str(wanted.get('volume_uuid'))
    # Cinder itself reports ids that are malformed.
    if uuidutils.is_uuid_like(server) and uuidutils.is_uuid_like(volume):
        yield volume, str(server)
