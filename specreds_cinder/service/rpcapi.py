# SPDX-License-Identifier: Apache-2.0
"""RPC client of volume services, for the API and for other back ends."""

import time
from typing import Any

from cinder import context
from cinder import objects
from cinder import rpc
from cinder.common import constants
from cinder.volume import volume_utils
import oslo_messaging as messaging

from specreds_cinder import exception
from specreds_cinder.service import endpoint

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
    """The client's side of :class:`endpoint.Endpoint`."""

    def __init__(self) -> None:
        self._client = rpc.get_client(messaging.Target(
            topic=constants.VOLUME_TOPIC, namespace=endpoint.NAMESPACE,
            version=endpoint.VERSION))

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


class TookTooLong(exception.SuperpositionUnavailable):
    """A call without an answer within the configured time; the service may still work on it."""


def backend(volume: objects.Volume) -> str:
    """Return the name of a volume's back end, or of its cluster, without the pool."""
    name: str = volume_utils.extract_host(volume.service_topic_queue)
    return name
