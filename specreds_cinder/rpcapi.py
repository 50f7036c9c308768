# SPDX-License-Identifier: Apache-2.0
"""How the API, and the back ends of a set among each other, reach a volume service."""

import builtins
from collections.abc import Iterable, Mapping, Sequence
import time
from typing import Any

from cinder import context
from cinder import objects
from cinder import rpc
from cinder.common import constants
from cinder.volume import volume_utils
from oslo_config import cfg
import oslo_messaging as messaging

from specreds_cinder import conf
from specreds_cinder import endpoint
from specreds_cinder import exception

CONF = cfg.CONF
conf.register(CONF)

# Seconds without a sign of life from a volume service that is at work.
_SIGN_OF_LIFE = 20
# What an exception of these names means: the service is there, but does not know of us.
_FOREIGN = ('UnsupportedVersion', 'NoSuchMethod')


class SuperAPI:
    """The client's side of :class:`endpoint.Endpoint`.

    ``host`` is a volume's ``service_topic_queue``: ``host@backend`` or ``cluster@backend``, with
    or without a pool. Every method raises the exceptions that the volume service answers, and

    :raises SuperpositionUnavailable: it does not answer
    :raises SuperpositionInvalid: it runs, but is not one whose volumes can be superposed
    """

    def __init__(self) -> None:
        self._client = rpc.get_client(messaging.Target(
            topic=constants.VOLUME_TOPIC, namespace=endpoint.NAMESPACE,
            version=endpoint.VERSION))

    def create(self, ctxt: Any, superposition_id: str, volumes: Sequence[objects.Volume],
               server_id: str | None, reason: str) -> dict[str, Any]:
        """Put volumes into superposition: all of them, or none.

        The back end of the first one drives the others.
        """
        wanted = [{'id': volume.id, 'host': backend(volume)} for volume in volumes]
        created: dict[str, Any] = self._call(
            ctxt, wanted[0]['host'], 'create', superposition_id=superposition_id,
            volumes=wanted, server_id=server_id, reason=reason,
            # Nobody waits for it any more when a service takes the message up later.
            expires_at=time.time() + _SIGN_OF_LIFE)
        return created

    def get(self, ctxt: Any, host: str, superposition_id: str) -> dict[str, Any]:
        """Describe a superposition as far as it is on one back end."""
        found: dict[str, Any] = self._call(ctxt, host, 'get', superposition_id=superposition_id)
        return found

    def list(self, ctxt: Any, host: str) -> list[dict[str, Any]]:
        """Describe everything that is superposed on a back end."""
        found: list[dict[str, Any]] = self._call(ctxt, host, 'list', brief=True)
        return found

    def check(self, ctxt: Any, hosts: Iterable[str], superposition_id: str) -> dict[str, Any]:
        """Sweep a superposition, wherever its volumes are."""
        reports = [self._call(ctxt, host, 'check', superposition_id=superposition_id)
                   for host in hosts]
        return merge_checks(reports)

    def collapse(self, ctxt: Any, lead_host: str, superposition_id: str,
                 durable: bool) -> dict[str, Any]:
        """Decide for the backup unless the primary has written.

        :raises SuperpositionPending: it takes longer than the configured time, and goes on
        """
        try:
            report: dict[str, Any] = self._call(
                ctxt, lead_host, 'collapse', superposition_id=superposition_id, durable=durable)
        except _TookTooLong as exc:
            raise exception.SuperpositionPending(
                f'superposition {superposition_id} is still collapsing') from exc
        return report

    def abort(self, ctxt: Any, lead_host: str, superposition_id: str) -> None:
        """Decide for the primary."""
        try:
            self._call(ctxt, lead_host, 'abort', superposition_id=superposition_id)
        except _TookTooLong as exc:
            raise exception.SuperpositionPending(
                f'superposition {superposition_id} is still being removed') from exc

    def merge(self, ctxt: Any, hosts: Iterable[str], superposition_id: str, step: str) -> None:
        """Begin or end a hypervisor's merge, or have the volume service merge now."""
        for host in hosts:
            self._call(ctxt, host, 'merge', superposition_id=superposition_id, step=step)

    def connection(self, ctxt: Any, host: str, superposition_id: str,
                   connector: Mapping[str, Any]) -> 'builtins.list[dict[str, Any]]':
        """Give what a hypervisor needs to open the child versions on one back end."""
        given: list[dict[str, Any]] = self._call(
            ctxt, host, 'connection', superposition_id=superposition_id,
            connector=dict(connector))
        return given

    def current_connection(self, ctxt: Any, volume: objects.Volume,
                           connector: Mapping[str, Any], *, hand_out: bool) -> dict[str, Any]:
        """Give what ``initialize_connection`` would give for a volume now.

        :param hand_out: somebody may open it, so it is not merged for a while
        """
        info: dict[str, Any] = self._call(
            ctxt, backend(volume), 'current_connection', volume_id=volume.id,
            connector=dict(connector), hand_out=hand_out)
        return info

    def eligibility(self, ctxt: Any, host: str,
                    volume_ids: Sequence[str]) -> 'builtins.list[dict[str, Any]]':
        """Tell of volumes of one back end whether they can be superposed, and why not."""
        found: list[dict[str, Any]] = self._call(
            ctxt, host, 'eligibility', volume_ids=list(volume_ids))
        return found

    def member(self, ctxt: Any, host: str, step: str, **arguments: Any) -> Any:
        """Have another back end of a set do its part.

        :param step: create, check, prepare, commit or drop
        """
        return self._call(ctxt, host, f'member_{step}', **arguments)

    def _call(self, ctxt: Any, host: str, method: str, **arguments: Any) -> Any:
        host = volume_utils.extract_host(host)
        _must_be_up(host)
        # As VolumeAPI addresses a back end, with a sign of life for what takes longer.
        client = self._client.prepare(
            topic=f'{constants.VOLUME_TOPIC}.{host}',
            server=volume_utils.extract_host(host, 'host'),
            timeout=CONF.specreds.rpc_timeout, call_monitor_timeout=_SIGN_OF_LIFE)
        try:
            answer = client.call(ctxt, method, **arguments)
        except messaging.MessagingTimeout as exc:
            raise _TookTooLong(f'volume service {host} has not answered to {method} in time: see '
                               f'whether it is up, and ask again') from exc
        except messaging.MessageDeliveryFailure as exc:
            raise exception.SuperpositionUnavailable(
                f'the message broker does not take a call to volume service {host}') from exc
        except (messaging.UnsupportedVersion, messaging.RemoteError) as exc:
            if getattr(exc, 'exc_type', _FOREIGN[0]) not in _FOREIGN:
                raise
            raise exception.SuperpositionInvalid(
                f'volumes of back end {host} cannot be superposed: its volume service does not '
                f'have the extension') from exc
        if 'error' in answer:
            error = answer['error']
            # One that a newer service has is not known here.
            kind = getattr(exception, error['type'], exception.SuperpositionError)
            raise kind(error['reason'], state=error['state'], reasons=error['reasons'])
        return answer['result']


def _must_be_up(host: str) -> None:
    """:raises SuperpositionUnavailable: no volume service of the back end shows signs of life"""
    services = objects.ServiceList.get_all(
        context.get_admin_context(), {'binary': constants.VOLUME_BINARY})
    if not any(service.is_up for service in services if host in (service.host,
                                                                 service.cluster_name)):
        raise exception.SuperpositionUnavailable(
            f'volume service {host} is down: what is superposed there stays as it is until the '
            f'service is up again')


class _TookTooLong(exception.SuperpositionUnavailable):
    """No answer within the configured time. What was asked may go on."""


def backend(volume: objects.Volume) -> str:
    """Name the back end of a volume, or its cluster's, without the pool."""
    name: str = volume_utils.extract_host(volume.service_topic_queue)
    return name


def merge_checks(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Make one report of those of several back ends."""
    return {
        'dirty': any(report['dirty'] for report in reports),
        'first': next((report['first'] for report in reports if report['first']), None),
        'objects': sum(report['objects'] for report in reports),
        'seconds': max(report['seconds'] for report in reports),
    }
