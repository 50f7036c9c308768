# SPDX-License-Identifier: Apache-2.0
"""Versioned notifications of recoveries and hosts, for whoever listens on the broker.

The payload is an object of oslo.versionedobjects: a consumer looks at ``specreds_object.version``.
A field that is added raises its minor version, anything else the major one.
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

# A broker that is gone for longer than they last loses the newest.
_MAX_WAITING = 1000
# Without it oslo.messaging would try one for ever.
_RETRIES = 3


# Without a subscript, which older releases do not take.
class SecondsField(fields.AutoTypedField):  # type: ignore[type-arg]
    """Durations by name."""

    AUTO_TYPE = fields.Dict(fields.Float())


@base.VersionedObjectRegistry.register
class RecoveryPayload(base.VersionedObject):
    """What every notification says of its recovery; what is not known is None."""

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
    """What every notification says of its host."""

    VERSION = '1.1'
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
    """Sends them, from a thread of its own: no recovery waits for a broker that does not answer.

    One that cannot be sent is logged, and lost.

    :param notifier: of oslo.messaging
    """

    def __init__(self, notifier: messaging.Notifier) -> None:
        self._notifier = notifier
        self._waiting: queue.Queue[tuple[Any, str, str, Any]] = queue.Queue(_MAX_WAITING)
        threading.Thread(target=self._work, name='notifications', daemon=True).start()

    def recovery(self, phase: Literal['start', 'promote', 'end', 'error'],
                 found: model.Recovery) -> None:
        """Tell of a recovery.

        What has failed, a step or all of it, is told with priority error.

        :param phase: it begins, its backup is the server now, it has ended, or a step of it failed
        :param found: with its steps, if what they took is to be told
        """
        self._send(f'recovery.{phase}', found.id, lambda: RecoveryPayload(
            id=found.id, state=found.state, outcome=found.outcome, server_id=found.server,
            server_name=found.server_name, project_id=found.project, host=found.host,
            destination=found.destination, superposition_id=found.superposition,
            engine=found.engine, why=_words(found.why), suspected_at=_time(found.suspected),
            ended_at=None if found.ended is None else _time(found.ended),
            steps={step.name: step.ended - step.began for step in found.steps
                   if step.ended is not None},
            merged_bytes=found.bytes, error=found.error),
            phase == 'error' or found.outcome == model.FAILED)

    def host(self, phase: Literal['suspect', 'clear', 'hold'], found: model.Host) -> None:
        """Tell of a host.

        :param phase: it is suspected, or not any more, or a gate holds back what is to be done
        """
        self._send(f'host.{phase}', found.name, lambda: HostPayload(
            name=found.name, state=found.shown, since=_time(found.since),
            why=_words(found.why), word=found.word, word_reason=found.word_reason,
            flaps=found.flaps, held=list(found.held)))

    def flush(self) -> None:
        """Wait until all are sent, or lost."""
        self._waiting.join()

    def _send(self, event: str, of: str, make: Callable[[], Any], failed: bool = False) -> None:
        tell = self._notifier.error if failed else self._notifier.info
        try:
            payload = make()
            # Everything is new: a list of what has changed would tell nothing.
            payload.obj_reset_changes()
            self._waiting.put_nowait((tell, event, of, payload.obj_to_primitive()))
        except queue.Full:
            LOG.warning('notification %s of %s was not sent: too many wait already', event, of)
        except Exception:
            LOG.exception('notification %s of %s was not sent', event, of)

    def _work(self) -> None:
        while True:
            tell, event, of, payload = self._waiting.get()
            try:
                tell({}, event, payload)
            except Exception:
                LOG.exception('notification %s of %s was not sent', event, of)
            finally:
                self._waiting.task_done()


def from_conf(conf: cfg.ConfigOpts, engine: str) -> Notifications:
    """Give the notifications of an engine, by ``[oslo_messaging_notifications]``.

    :param engine: its name
    """
    transport = messaging.get_notification_transport(conf)
    return Notifications(messaging.Notifier(
        transport, publisher_id=f'specreds-engine.{engine}', retry=_RETRIES,
        serializer=messaging.JsonPayloadSerializer()))


def _words(why: tuple[Mapping[str, Any], ...]) -> list[str]:
    return [str(one.get('words', one.get('kind', ''))) for one in why]


def _time(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
