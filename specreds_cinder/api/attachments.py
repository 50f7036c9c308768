# SPDX-License-Identifier: Apache-2.0
"""Attachments as they are read again: with the connection that counts now.

Cinder answers with the connection that was made when the volume was attached. When what is read
then is another version of the volume by now, whoever connects to it would see, and write, the
wrong one.
"""

from collections.abc import Mapping
from typing import Any

from cinder import context
from cinder import exception as cinder_exception
from cinder import objects
from cinder.api.openstack import wsgi
from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder import hints
from specreds_cinder import rpcapi

LOG = logging.getLogger(__name__)

# The driver's name for it; cinder-api needs none of what the driver imports.
CONNECTION_TYPE = 'rbd_super'

# What Cinder adds to what a driver gives; it belongs to the attachment, whatever the version.
_CINDERS = ('access_mode', 'attachment_id', 'cacheable', 'encrypted', 'enforce_multipath',
            'qos_specs')

_Info = dict[str, Any]


class AttachmentsController(wsgi.Controller):
    """Corrects the answers of Cinder's own controller."""

    def __init__(self) -> None:
        super().__init__()
        self._rpc = rpcapi.SuperAPI()

    @wsgi.extends
    def show(self, req: wsgi.Request, resp_obj: wsgi.ResponseObject, id: str) -> None:
        """Correct one attachment.

        :raises SuperpositionUnavailable: nobody knows which version counts
        """
        attachment = resp_obj.obj['attachment']
        attachment['connection_info'] = self._current(req, attachment, hand_out=True)

    @wsgi.extends
    def detail(self, req: wsgi.Request, resp_obj: wsgi.ResponseObject) -> None:
        """Correct a list of attachments; without a connection where that is not known."""
        for attachment in resp_obj.obj['attachments']:
            try:
                # A list is looked at, not connected to: it does not put a merge off.
                attachment['connection_info'] = self._current(req, attachment, hand_out=False)
            except (exception.SuperpositionError, cinder_exception.NotFound) as exc:
                LOG.warning('attachment %s is listed without its connection: %s',
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
        info = self._rpc.current_connection(req.environ['cinder.context'], volume, connector,
                                            hand_out=hand_out)
        return {**{key: stored[key] for key in _CINDERS if key in stored},
                'driver_volume_type': info['driver_volume_type'], **info['data']}
