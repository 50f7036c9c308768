# SPDX-License-Identifier: Apache-2.0
"""What Masakari is told of hosts, as evidence: its versioned notifications are listened to.

A notification names a host by Masakari's own id, so Masakari is asked once for the names.
"""

from collections.abc import Callable, Mapping
import datetime
import threading
from typing import Any, Protocol

from oslo_config import cfg
from oslo_log import log as logging
import oslo_messaging as messaging

from specreds_nova.engine import exception
from specreds_nova.engine import interfaces
from specreds_nova.engine.clients import rest
from specreds_nova.engine.detection import evidence

LOG = logging.getLogger(__name__)

OPTIONS: list[cfg.Opt] = [
    cfg.ListOpt('masakari_topics', default=[],
                help='Topics to which Masakari sends its notifications, as in '
                     '[oslo_messaging_notifications] topics of masakari.conf: that Masakari was '
                     'notified of the failure of a host is then evidence, of weight 0.8. '
                     'Nothing is listened to by default.'),
    cfg.StrOpt('masakari_exchange', default='masakari',
               help='Exchange of these topics: control_exchange of masakari.conf.'),
    cfg.StrOpt('masakari_transport_url', secret=True,
               help='Broker to which Masakari sends them; unless it is set, that of '
                    '[oslo_messaging_notifications].'),
]

_TYPE = 'COMPUTE_HOST'
_FAILED = {'event': 'STOPPED', 'cluster_status': 'OFFLINE', 'host_status': 'NORMAL'}
_BACK = 'STARTED'
# Seconds for which hosts that Masakari does not know are not asked for again.
_UNKNOWN = 60.0


class Monitor(Protocol):
    """What is told of hosts."""

    def look(self, host: str) -> object | None:
        """Return a host as this engine sees it."""

    def note(self, host: str, kind: str, measured: object, share: float = 1.0) -> None:
        """Take evidence."""

    def withdraw(self, host: str, kind: str) -> None:
        """Forget evidence."""


class Names:
    """The names of Masakari's hosts. May be used by several threads.

    :param masakari: the service
    """

    def __init__(self, masakari: rest.Service, clock: interfaces.Clock) -> None:
        self._masakari = masakari
        self._clock = clock
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self._read = float('-inf')

    def name(self, uuid: str) -> str | None:
        """Return one; None if Masakari knows none.

        :raises exception.EngineError: Masakari does not answer
        """
        with self._lock:
            now = self._clock.now()
            if uuid not in self._names and now - self._read >= _UNKNOWN:
                self._names = {host['uuid']: host['name'] for segment in self._segments()
                               for host in self._hosts(segment['uuid'])}
                self._read = now
            return self._names.get(uuid)

    def _segments(self) -> list[dict[str, Any]]:
        segments: list[dict[str, Any]] = self._masakari.get('/segments')['segments']
        return segments

    def _hosts(self, segment: str) -> list[dict[str, Any]]:
        hosts: list[dict[str, Any]] = self._masakari.get(f'/segments/{segment}/hosts')['hosts']
        return hosts


class Endpoint:
    """Takes notifications to the monitor. Never raises.

    :param name: gives the name of a host by Masakari's id
    :param lifetime: seconds after which a notification says nothing any more
    """

    filter_rule = messaging.NotificationFilter(event_type=r'^notification\.create\.(start|end)$')

    def __init__(self, monitor: Monitor, clock: interfaces.Clock,
                 name: Callable[[str], str | None], lifetime: float) -> None:
        self._monitor = monitor
        self._clock = clock
        self._name = name
        self._lifetime = lifetime

    def info(self, ctxt: Any, publisher_id: str, event_type: str, payload: Mapping[str, Any],
             metadata: Mapping[str, Any]) -> None:
        """Somebody has notified Masakari."""
        del ctxt, publisher_id, event_type
        try:
            notification: Mapping[str, Any] = payload['masakari_object.data']
            if notification['type'] != _TYPE or self._old(str(metadata['timestamp'])):
                return
            self._host(str(notification['source_host_uuid']), notification['payload'])
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            LOG.warning('a notification of Masakari is not understood: %r', exc)
        except exception.EngineError as exc:
            LOG.warning('a notification of Masakari says nothing: %s', exc)

    def _old(self, timestamp: str) -> bool:
        """Return whether one is from before, such as of a time when the engine was not running."""
        sent = datetime.datetime.fromisoformat(timestamp).replace(tzinfo=datetime.UTC)
        return self._clock.now() - sent.timestamp() > self._lifetime

    def _host(self, uuid: str, payload: Mapping[str, Any]) -> None:
        name = self._name(uuid)
        # Masakari has it as the hypervisor is called, which may be with its domain.
        known = [host for host in (name or '', (name or '').split('.')[0])
                 if self._monitor.look(host) is not None]
        if not known:
            LOG.info('Masakari was notified of host %s, which is not heard here', name or uuid)
        elif str(payload.get('event')).upper() == _BACK:
            self._monitor.withdraw(known[0], evidence.MASAKARI)
        elif all(str(payload.get(key)).upper() == value for key, value in _FAILED.items()):
            self._monitor.note(known[0], evidence.MASAKARI, 'its cluster has lost it')


class Listener:
    """Listens for as long as the engine runs; if that is not configured, to nothing.

    :param conf: the global configuration
    :param engine: the name of this engine, which has a queue of its own
    """

    def __init__(self, conf: Any, engine: str, monitor: Monitor, clock: interfaces.Clock) -> None:
        options = conf.engine
        self._server: Any = None
        if not options.masakari_topics:
            return
        names = Names(rest.Service(rest.session(conf), conf, 'Masakari', 'instance-ha'), clock)
        self._transport = messaging.get_notification_transport(
            conf, url=options.masakari_transport_url)
        endpoint = Endpoint(monitor, clock, names.name, options.evidence_lifetime)
        self._server = messaging.get_notification_listener(
            self._transport,
            [messaging.Target(exchange=options.masakari_exchange, topic=topic)
             for topic in options.masakari_topics],
            [endpoint], executor='threading', pool=f'specreds-engine-{engine}')

    def start(self) -> None:
        """Begin, from a thread of its own: a broker that is away is not waited for."""
        if self._server is not None:
            threading.Thread(target=self._server.start, name='masakari', daemon=True).start()

    def stop(self, patience: float) -> None:
        """End.

        :param patience: seconds after which a broker that is away is not waited for
        """
        if self._server is not None:
            ending = threading.Thread(target=self._end, name='masakari', daemon=True)
            ending.start()
            ending.join(patience)

    def _end(self) -> None:
        self._server.stop()
        self._server.wait()
        self._transport.cleanup()
