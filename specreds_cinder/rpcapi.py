# SPDX-License-Identifier: Apache-2.0
"""RPC client of volume services, for the API and for the other back ends of a set."""

import builtins
from collections.abc import Iterable, Mapping, Sequence
import time
from typing import Any

from cinder import context
from cinder import objects
from cinder import rpc
from cinder.common import constants
from cinder.volume import volume_utils
import oslo_messaging as messaging

from specreds_cinder import endpoint
from specreds_cinder import exception
from specreds_cinder import server_disks

# Seconds that a call may take: a sweep takes about a second for every 100 GiB of data. The API
# returns 202 for a decision that takes longer, which continues.
_TIMEOUT_S = 300
# Longest time in seconds between two signs of life of a volume service during a call.
_SIGN_OF_LIFE = 20
# Names of exceptions that mean: the service runs, but lacks the extension.
_FOREIGN = ('UnsupportedVersion', 'NoSuchMethod')


class SuperAPI:
    """The client's side of :class:`endpoint.Endpoint`.

    ``host`` is a volume's ``service_topic_queue``: ``host@backend`` or ``cluster@backend``, with
    or without a pool. Every method raises the errors that the volume service returns, and

    :raises SuperpositionUnavailable: the volume service does not answer
    :raises SuperpositionInvalid: the volume service runs, but lacks the extension
    """

    def __init__(self) -> None:
        self._client = rpc.get_client(messaging.Target(
            topic=constants.VOLUME_TOPIC, namespace=endpoint.NAMESPACE,
            version=endpoint.VERSION))

    def create(self, ctxt: Any, superposition_id: str, volumes: Sequence[objects.Volume],
               server_id: str | None, reason: str,
               disks: Sequence[str] = ()) -> dict[str, Any]:
        """Put all volumes into superposition, or none.

        The back end of the first volume drives the others.

        :param disks: ids of disks of servers
        :raises SuperpositionInvalid: there are disks, and no back end superposes them
        """
        wanted = [{'id': volume.id, 'host': backend(volume)} for volume in volumes]
        more = [{'id': disk, 'host': server_disks.backend()} for disk in disks]
        created: dict[str, Any] = self._call(
            ctxt, (wanted + more)[0]['host'], 'create',
            superposition_id=superposition_id, volumes=wanted, server_id=server_id, reason=reason,
            disks=more,
            # A service that receives the message later drops it: no caller waits for the answer.
            expires_at=time.time() + _SIGN_OF_LIFE)
        return created

    def get(self, ctxt: Any, host: str, superposition_id: str, *,
            brief: bool = False) -> dict[str, Any]:
        """Return the part of a superposition that is on one back end.

        :param brief: leave out the sizes of overlays
        """
        result: dict[str, Any] = self._call(ctxt, host, 'get', superposition_id=superposition_id,
                                            brief=brief)
        return result

    def list(self, ctxt: Any, host: str) -> list[dict[str, Any]]:
        """Return all superpositions that have a part on a back end."""
        result: list[dict[str, Any]] = self._call(ctxt, host, 'list', brief=True)
        return result

    def check(self, ctxt: Any, hosts: Iterable[str], superposition_id: str) -> dict[str, Any]:
        """Sweep the volumes of a superposition on all of its back ends."""
        reports = [self._call(ctxt, host, 'check', superposition_id=superposition_id)
                   for host in hosts]
        return merge_checks(reports)

    def collapse(self, ctxt: Any, lead_host: str, superposition_id: str,
                 durable: bool) -> dict[str, Any]:
        """Decide for the backup unless the primary has written.

        :raises SuperpositionPending: the collapse exceeds the configured time, and continues
        """
        try:
            report: dict[str, Any] = self._call(
                ctxt, lead_host, 'collapse', superposition_id=superposition_id, durable=durable)
        except _TookTooLong as exc:
            raise exception.SuperpositionPending(
                f'superposition {superposition_id} is still collapsing') from exc
        return report

    def abort(self, ctxt: Any, lead_host: str, superposition_id: str) -> None:
        """Decide for the primary.

        :raises SuperpositionPending: the removal exceeds the configured time, and continues
        """
        try:
            self._call(ctxt, lead_host, 'abort', superposition_id=superposition_id)
        except _TookTooLong as exc:
            raise exception.SuperpositionPending(
                f'superposition {superposition_id} is still being removed') from exc

    def merge(self, ctxt: Any, hosts: Iterable[str], superposition_id: str, step: str) -> None:
        """Begin or end a hypervisor's merge, or start a merge by the volume service."""
        for host in hosts:
            self._call(ctxt, host, 'merge', superposition_id=superposition_id, step=step)

    def merging(self, ctxt: Any, host: str) -> dict[str, Any]:
        """Return the number of disks that are merged on a back end, and its cluster and pool."""
        result: dict[str, Any] = self._call(ctxt, host, 'merging')
        return result

    def connection(self, ctxt: Any, host: str, superposition_id: str,
                   connector: Mapping[str, Any], *,
                   disks: bool = False) -> 'builtins.list[dict[str, Any]]':
        """Return the connections to the second versions of the volumes on one back end.

        :param disks: only those of disks of servers, also if the second version is the real one
        """
        connections: list[dict[str, Any]] = self._call(
            ctxt, host, 'connection', superposition_id=superposition_id,
            connector=dict(connector), **({'disks': True} if disks else {}))
        return connections

    def current_connection(self, ctxt: Any, volume: objects.Volume,
                           connector: Mapping[str, Any], *, hand_out: bool) -> dict[str, Any]:
        """Return the connection that ``initialize_connection`` would return for a volume.

        :param hand_out: the caller may open the volume, so its merge is put off
        """
        info: dict[str, Any] = self._call(
            ctxt, backend(volume), 'current_connection', volume_id=volume.id,
            connector=dict(connector), hand_out=hand_out)
        return info

    def eligibility(self, ctxt: Any, host: str, volume_ids: Sequence[str],
                    disks: Sequence[str] = (), fenced_host: str | None = None
                    ) -> 'builtins.list[dict[str, Any]]':
        """Report which volumes of one back end can be superposed, and why others cannot.

        :param disks: ids of disks of servers, to report on instead
        :param fenced_host: report as well whether this host can be shut out of the volumes
        """
        result: list[dict[str, Any]] = self._call(
            ctxt, host, 'eligibility', volume_ids=list(volume_ids),
            **({'disks': list(disks)} if disks else {}),
            **({'fenced_host': fenced_host} if fenced_host else {}))
        return result

    def fence_observe(self, ctxt: Any, host: str, volume_ids: Sequence[str],
                      fence_id: str) -> None:
        """Note the clients of volumes of one back end for a fence that may follow."""
        self._call(ctxt, host, 'fence_observe', volume_ids=list(volume_ids), fence_id=fence_id)

    def fence_host(self, ctxt: Any, host: str, volume_ids: Sequence[str], fenced_host: str,
                   fence_id: str) -> 'builtins.list[dict[str, Any]]':
        """Fence a host's clients of volumes of one back end; return their number by volume."""
        result: list[dict[str, Any]] = self._call(
            ctxt, host, 'fence_host', volume_ids=list(volume_ids), fenced_host=fenced_host,
            fence_id=fence_id, expires_at=time.time() + _SIGN_OF_LIFE)
        return result

    def release_booted(self, ctxt: Any, host: str,
                       boots: Sequence[Mapping[str, Any]]) -> 'builtins.list[str]':
        """Release the fenced clients of one back end that boots of their hosts have ended."""
        released: list[str] = self._call(ctxt, host, 'release_booted', boots=list(boots))
        return released

    def fence_disks_observe(self, ctxt: Any, disks: Sequence[str], fence_id: str) -> None:
        """Note the clients of all disks of the servers of some disks.

        :param disks: ids of disks that have to exist
        """
        self._call(ctxt, server_disks.backend(), 'fence_disks_observe', disks=list(disks),
                   fence_id=fence_id)

    def fence_disks(self, ctxt: Any, disks: Sequence[str],
                    fence_id: str) -> 'builtins.list[dict[str, Any]]':
        """Fence the clients that were noted, on their hosts; return their number by disk.

        :param disks: ids of disks that have to exist
        """
        result: list[dict[str, Any]] = self._call(
            ctxt, server_disks.backend(), 'fence_disks', disks=list(disks), fence_id=fence_id,
            expires_at=time.time() + _SIGN_OF_LIFE)
        return result

    def member(self, ctxt: Any, host: str, step: str, **arguments: Any) -> Any:
        """Call a step on another back end of a set.

        :param step: create, check, prepare, commit or drop
        """
        return self._call(ctxt, host, f'member_{step}', **arguments)

    def _call(self, ctxt: Any, host: str, method: str, /, **arguments: Any) -> Any:
        host = volume_utils.extract_host(host)
        _must_be_up(host)
        # The address that VolumeAPI uses, with signs of life for calls that take longer.
        client = self._client.prepare(
            topic=f'{constants.VOLUME_TOPIC}.{host}',
            server=volume_utils.extract_host(host, 'host'),
            timeout=_TIMEOUT_S, call_monitor_timeout=_SIGN_OF_LIFE)
        try:
            answer = client.call(ctxt, method, **arguments)
        except messaging.MessagingTimeout as exc:
            raise _TookTooLong(f'volume service {host} did not answer {method} in time: make '
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


class _TookTooLong(exception.SuperpositionUnavailable):
    """A call without an answer within the configured time; the service may still work on it."""


def backend(volume: objects.Volume) -> str:
    """Return the name of a volume's back end, or of its cluster, without the pool."""
    name: str = volume_utils.extract_host(volume.service_topic_queue)
    return name


def merge_checks(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one report that combines the reports of several back ends."""
    dirty = any(report['dirty'] for report in reports)
    unproven = not dirty and any(report['unproven'] for report in reports)
    return {
        'dirty': dirty,
        'unproven': unproven,
        'first': next((report['first'] for report in reports
                       if report['first'] and report['dirty'] == dirty), None),
        'objects': sum(report['objects'] for report in reports),
        'seconds': max(report['seconds'] for report in reports),
    }
