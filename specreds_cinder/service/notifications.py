# SPDX-License-Identifier: Apache-2.0
"""Versioned notifications of superpositions, on Cinder's notifier.

The payload is an object of oslo.versionedobjects: consumers read ``specreds_object.version``. An
added field raises the minor version, any other change the major version.
"""

from collections.abc import Mapping
from typing import Any

from cinder import rpc
from oslo_log import log as logging
from oslo_versionedobjects import base
from oslo_versionedobjects import fields

LOG = logging.getLogger(__name__)

EVENTS = frozenset({
    *(f'superposition.{what}.{phase}' for what in ('create', 'collapse', 'merge')
      for phase in ('start', 'end', 'error')),
    'superposition.dirty',
})


# Without a subscript, which older releases of oslo.versionedobjects reject.
class SecondsField(fields.AutoTypedField):  # type: ignore[type-arg]
    """Durations by name."""

    AUTO_TYPE = fields.Dict(fields.Float())


@base.VersionedObjectRegistry.register
class SuperpositionPayload(base.VersionedObject):
    """The superposition of a notification; an unknown field is None."""

    VERSION = '1.0'
    OBJ_SERIAL_NAMESPACE = 'specreds_object'
    OBJ_PROJECT_NAMESPACE = 'specreds'

    fields = {
        'id': fields.UUIDField(),
        'state': fields.StringField(nullable=True),
        'outcome': fields.StringField(nullable=True),
        'decision': fields.StringField(nullable=True),
        'volumes': fields.ListOfStringsField(),
        'server_id': fields.StringField(nullable=True),
        'project_id': fields.StringField(nullable=True),
        'user_id': fields.StringField(nullable=True),
        'reason': fields.StringField(nullable=True),
        'host': fields.StringField(),
        'durations': SecondsField(nullable=True),
        'dirty_object': fields.StringField(nullable=True),
        'overlay_bytes': fields.IntegerField(nullable=True),
        'error': fields.StringField(nullable=True),
    }


# Fields that a view has under the same name.
_VIEWED = ('id', 'state', 'outcome', 'server_id', 'project_id', 'user_id', 'reason',
           'dirty_object', 'overlay_bytes')


def emit(ctxt: Any, host: str, event: str, view: Mapping[str, Any], *,
         decision: str | None = None, durations: Mapping[str, float | None] | None = None,
         error: str | None = None) -> None:
    """Send a notification. A failure to send is logged, so that the caller can continue.

    :param ctxt: Cinder's request context
    :param host: the back end that sends the notification
    :param event: one of ``EVENTS``
    :param view: the superposition; at least its id
    :param decision: promote or abort, of a collapse
    :param durations: seconds by step; a step without a duration is left out
    :param error: the reason of a failure, in words
    """
    try:
        _send(ctxt, host, event, payload(host, view, decision, durations, error))
    except Exception:
        LOG.exception('notification %s of superposition %s was not sent', event, view.get('id'))


def payload(host: str, view: Mapping[str, Any], decision: str | None = None,
            durations: Mapping[str, float | None] | None = None,
            error: str | None = None) -> dict[str, Any]:
    """Return a payload in the form that is sent. The parameters are as for :func:`emit`."""
    if durations is not None:
        durations = {name: took for name, took in durations.items() if took is not None}
    made = SuperpositionPayload(
        host=host, decision=decision, durations=durations, error=error,
        volumes=[volume['id'] for volume in view.get('volumes', ())],
        **{field: view.get(field) for field in _VIEWED})
    # Every field of a new object counts as changed, so the list of changes is useless.
    made.obj_reset_changes()
    primitive: dict[str, Any] = made.obj_to_primitive()
    return primitive


def _send(ctxt: Any, host: str, event: str, data: Mapping[str, Any]) -> None:
    if event not in EVENTS:
        raise ValueError(f'event {event} is not in EVENTS')
    notifier = rpc.get_notifier('volume', host)
    tell = notifier.error if event.endswith('.error') else notifier.info
    tell(ctxt, event, data)
