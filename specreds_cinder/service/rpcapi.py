# SPDX-License-Identifier: Apache-2.0
"""Calls to volume services, both ends: RPC namespace ``specreds``, version 1.0.

Arguments and answers are plain JSON values. An error is an answer, too: whether an exception
survives its way to the caller depends on the modules that the caller has imported.
"""

from collections.abc import Callable, Mapping
import functools
import math
import time
from typing import Any

from cinder import context
from cinder import objects
from cinder import rpc
from cinder.common import constants
from cinder.volume import volume_utils
from oslo_log import log as logging
import oslo_messaging as messaging

from specreds_cinder import exception

LOG = logging.getLogger(__name__)

NAMESPACE = 'specreds'
VERSION = '1.0'

# Seconds that a call may take: a sweep takes about a second for every 100 GiB of data. The API
# returns 202 for a decision that takes longer, which continues.
_TIMEOUT_S = 300
# Longest time in seconds between two signs of life of a volume service during a call.
_SIGN_OF_LIFE = 20
# Calls that change what no caller waits for: a service that receives one later refuses it.
_EXPIRING = ('create', 'fence_host', 'fence_disks')
# Names of exceptions that mean: the service runs, but lacks the extension.
_FOREIGN = ('UnsupportedVersion', 'NoSuchMethod')


class SuperAPI:
    """The client's side of :class:`Endpoint`."""

    def __init__(self) -> None:
        self._client = rpc.get_client(messaging.Target(
            topic=constants.VOLUME_TOPIC, namespace=NAMESPACE, version=VERSION))

    def call(self, ctxt: Any, host: str, method: str, /, **arguments: Any) -> Any:
        """Call a volume service, and return its answer.

        :param host: a volume's ``service_topic_queue``: ``host@backend`` or ``cluster@backend``,
            with or without a pool
        :param method: one of :data:`volume.service.METHODS`
        :raises SuperpositionError: the volume service has refused
        :raises TookTooLong: the volume service has not answered yet, and may still work on it
        :raises SuperpositionUnavailable: the volume service does not answer
        :raises SuperpositionInvalid: the volume service runs, but lacks the extension
        """
        host = volume_utils.extract_host(host)
        _must_be_up(host)
        # The address that VolumeAPI uses, with signs of life for calls that take longer.
        client = self._client.prepare(
            topic=f'{constants.VOLUME_TOPIC}.{host}',
            server=volume_utils.extract_host(host, 'host'),
            timeout=_TIMEOUT_S, call_monitor_timeout=_SIGN_OF_LIFE)
        if method in _EXPIRING:
            arguments['expires_at'] = time.time() + _SIGN_OF_LIFE
        try:
            answer = client.call(ctxt, method, **arguments)
        except messaging.MessagingTimeout as exc:
            raise TookTooLong(f'volume service {host} did not answer {method} in time: make '
                              f'sure that the service is up, and repeat the request') from exc
        except messaging.MessageDeliveryFailure as exc:
            raise exception.SuperpositionUnavailable(
                f'the message broker does not accept a call to volume service {host}') from exc
        except (messaging.UnsupportedVersion, messaging.RemoteError) as exc:
            if getattr(exc, 'exc_type', _FOREIGN[0]) not in _FOREIGN:
                raise
            raise exception.SuperpositionInvalid(
                f'volumes of back end {host} cannot be superposed: its volume service does not '
                f'have the extension') from exc
        if 'error' in answer:
            error = answer['error']
            # A newer service may have types of errors that are unknown here.
            kind = getattr(exception, error['type'], exception.SuperpositionError)
            raise kind(error['reason'], state=error['state'], reasons=error['reasons'])
        return answer['result']


def _must_be_up(host: str) -> None:
    """:raises SuperpositionUnavailable: no volume service of the back end is up"""
    services = objects.ServiceList.get_all(
        context.get_admin_context(), {'binary': constants.VOLUME_BINARY, 'host_or_cluster': host})
    if not any(service.is_up for service in services if host in (service.host,
                                                                 service.cluster_name)):
        raise exception.SuperpositionUnavailable(
            f'volume service {host} is down: its superpositions stay as they are until the '
            f'service is up again')


class Endpoint:
    """Calls the functions that answer for a back end.

    A call may have the argument ``expires_at``, in seconds since the epoch. After that time no
    caller waits for the answer, and the call is refused.

    :param backend: returns the back end
    :param methods: the functions by name, each of which takes the back end, the context of the
        request, and the arguments of the call
    """

    target = messaging.Target(namespace=NAMESPACE, version=VERSION)

    def __init__(self, backend: Callable[[], Any],
                 methods: Mapping[str, Callable[..., Any]]) -> None:
        self._backend = backend
        self._methods = methods

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        if name.startswith('_') or name not in self._methods:
            raise AttributeError(name)
        return functools.partial(self._answer, name)

    def _answer(self, method: str, ctxt: Any, *, expires_at: float = math.inf,
                **arguments: Any) -> dict[str, Any]:
        try:
            if time.time() > expires_at:
                raise exception.SuperpositionUnavailable(
                    f'the request to {method} is too old: repeat it')
            return {'result': self._methods[method](self._backend(), ctxt, **arguments)}
        except exception.SuperpositionError as exc:
            LOG.info('%s was refused: %s', method, exc.msg)
            error = exc
        except Exception as exc:
            LOG.exception('%s failed', method)
            error = exception.SuperpositionError(
                f'{method} failed in the volume service ({type(exc).__name__}): see the log of '
                f'the service')
        # A subclass that the other side may lack is sent as its base in the module of errors.
        kind = next(kind for kind in type(error).__mro__ if kind.__module__ == exception.__name__)
        return {'error': {'type': kind.__name__, 'reason': error.msg,
                          'state': error.state, 'reasons': list(error.reasons)}}


class TookTooLong(exception.SuperpositionUnavailable):
    """A call without an answer within the configured time; the service may still work on it."""


def backend(volume: objects.Volume) -> str:
    """Return the name of a volume's back end, or of its cluster, without the pool."""
    name: str = volume_utils.extract_host(volume.service_topic_queue)
    return name
