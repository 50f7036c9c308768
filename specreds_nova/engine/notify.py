# SPDX-License-Identifier: Apache-2.0
"""Versioned notifications of recoveries and hosts, sent over the broker.

The payload is an object of oslo.versionedobjects, whose version is ``specreds_object.version``.
A new field raises the minor version, any other change the major version.
"""

from collections.abc import Callable, Mapping
import datetime
import queue
import threading
from typing import Any, Literal

from oslo_config import cfg
from oslo_log import log as logging
import oslo_messaging as messaging
from oslo_versionedobjects import base
from oslo_versionedobjects import fields

from specreds_nova.engine import model

LOG = logging.getLogger(__name__)

Phase = Literal['start', 'promote', 'end', 'error']
HostPhase = Literal['suspect', 'clear', 'hold', 'release']

# Notifications that wait for the broker; further ones are lost.
_MAX_WAITING = 1000
# By default, oslo.messaging would repeat one for ever.
_RETRIES = 3


# Without a subscript, which older releases do not support.
class SecondsField(fields.AutoTypedField):  # type: ignore[type-arg]
    """Durations by name."""

    AUTO_TYPE = fields.Dict(fields.Float())


@base.VersionedObjectRegistry.register
class RecoveryPayload(base.VersionedObject):
    """The payload of notifications of a recovery; unknown values are None."""

    VERSION = '1.0'
    OBJ_SERIAL_NAMESPACE = 'specreds_object'
    OBJ_PROJECT_NAMESPACE = 'specreds'

    fields = {
        'id': fields.UUIDField(),
        'state': fields.StringField(),
        'outcome': fields.StringField(nullable=True),
        'server_id': fields.StringField(),
        'server_name': fields.StringField(),
        'project_id': fields.StringField(),
        'host': fields.StringField(),
        'destination': fields.StringField(nullable=True),
        'superposition_id': fields.StringField(nullable=True),
        'engine': fields.StringField(nullable=True),
        'why': fields.ListOfStringsField(),
        'suspected_at': fields.DateTimeField(),
        'ended_at': fields.DateTimeField(nullable=True),
        'steps': SecondsField(),
        'merged_bytes': fields.IntegerField(nullable=True),
        'error': fields.StringField(nullable=True),
    }


@base.VersionedObjectRegistry.register
class HostPayload(base.VersionedObject):
    """The payload of notifications of a host."""

    VERSION = '1.0'
    OBJ_SERIAL_NAMESPACE = 'specreds_object'
    OBJ_PROJECT_NAMESPACE = 'specreds'

    fields = {
        'name': fields.StringField(),
        'state': fields.StringField(),
        'since': fields.DateTimeField(),
        'why': fields.ListOfStringsField(),
        'word': fields.StringField(nullable=True),
        'word_reason': fields.StringField(nullable=True),
        'flaps': fields.IntegerField(),
        'held': fields.ListOfStringsField(),
    }


class Notifications:
    """Sends notifications from a thread, so that no recovery waits for the broker.

    A notification that cannot be sent is logged and lost.

    :param notifier: notifier of oslo.messaging; None to send none
    """

    def __init__(self, notifier: messaging.Notifier | None = None) -> None:
        self._notifier = notifier
        self._waiting: queue.Queue[tuple[Any, str, str, Any]] = queue.Queue(_MAX_WAITING)
        if notifier is not None:
            threading.Thread(target=self._work, name='notifications', daemon=True).start()

    def recovery(self, phase: Phase, recovery: model.Recovery) -> None:
        """Notify a phase of a recovery.

        A failed step or recovery is notified with priority error.

        :param phase: the recovery begins, its backup is promoted, it has ended, or a step failed
        :param recovery: with its steps, if their durations are to be part of the payload
        """
        self._send(f'recovery.{phase}', recovery.id, lambda: RecoveryPayload(
            id=recovery.id, state=recovery.state, outcome=recovery.outcome,
            server_id=recovery.server, server_name=recovery.server_name,
            project_id=recovery.project, host=recovery.host, destination=recovery.destination,
            superposition_id=recovery.superposition, engine=recovery.engine,
            why=_words(recovery.why), suspected_at=_time(recovery.suspected),
            ended_at=None if recovery.ended is None else _time(recovery.ended),
            steps={step.name: step.ended - step.began for step in recovery.steps
                   if step.ended is not None},
            merged_bytes=recovery.bytes, error=recovery.error),
            phase == 'error' or recovery.outcome == model.FAILED)

    def host(self, phase: HostPhase, host: model.Host) -> None:
        """Notify a phase of a host.

        :param phase: the host is suspected, cleared, held back by gates, or released
        """
        self._send(f'host.{phase}', host.name, lambda: HostPayload(
            name=host.name, state=host.shown, since=_time(host.since), why=_words(host.why),
            word=host.word, word_reason=host.word_reason, flaps=host.flaps,
            held=list(host.held)))

    def flush(self) -> None:
        """Wait until all notifications are sent or lost."""
        self._waiting.join()

    def _send(self, event: str, of: str, make: Callable[[], Any], failed: bool = False) -> None:
        if self._notifier is None:
            return
        emit = self._notifier.error if failed else self._notifier.info
        try:
            payload = make()
            # The payload is new as a whole: a list of changed fields would mean nothing.
            payload.obj_reset_changes()
            self._waiting.put_nowait((emit, event, of, payload.obj_to_primitive()))
        except queue.Full:
            LOG.warning('notification %s of %s is lost: %d others wait for the broker', event, of,
                        _MAX_WAITING)
        except Exception:
            LOG.exception('notification %s of %s is lost', event, of)

    def _work(self) -> None:
        while True:
            emit, event, of, payload = self._waiting.get()
            try:
                emit({}, event, payload)
            except Exception:
                LOG.exception('notification %s of %s is lost', event, of)
            finally:
                self._waiting.task_done()


def from_conf(conf: cfg.ConfigOpts, engine: str) -> Notifications:
    """Return the notifications of an engine, by ``[oslo_messaging_notifications]``.

    :param engine: name of the engine
    """
    transport = messaging.get_notification_transport(conf)
    if not conf.oslo_messaging_notifications.driver:
        # A payload takes a millisecond to make, and the notifier would drop it.
        return Notifications()
    return Notifications(messaging.Notifier(
        transport, publisher_id=f'specreds-engine.{engine}', retry=_RETRIES,
        serializer=messaging.JsonPayloadSerializer()))


def _words(why: tuple[Mapping[str, Any], ...]) -> list[str]:
    return [str(fact.get('words', fact.get('kind', ''))) for fact in why]


def _time(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
