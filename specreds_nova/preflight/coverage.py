# SPDX-License-Identifier: Apache-2.0
"""What each server of a cloud would get with the engines that it has.

It is read now and then, as ``specreds-preflight`` reads it, and judged by the same code.
"""

from collections.abc import Callable, Collection
import dataclasses
import time
from typing import Any

from keystoneauth1 import exceptions as auth_exceptions
from openstack import connection
from openstack import exceptions as sdk_exceptions
from openstack.config import cloud_region
from oslo_config import cfg

from specreds_nova.engine import exception
from specreds_nova.engine.clients import connect
from specreds_nova.engine.clients import facts
from specreds_nova.engine.placing import protection
from specreds_nova.engine.store import store as stores
from specreds_nova.engine.suspicion import conf as detection_conf
from specreds_nova.engine.suspicion import servers
from specreds_nova.preflight import forecast
from specreds_nova.preflight import judging
from specreds_nova.preflight import reading
from specreds_nova.preflight import report
from specreds_nova.preflight import room

# Seconds for which a reading is valid, which takes thousands of servers from Nova's database.
_VALID = 300.0


@dataclasses.dataclass(frozen=True)
class Reading:
    """One reading of the cloud.

    :ivar at: when it began, in seconds since the epoch
    """

    at: float
    cloud: reading.Cloud
    judged: list[judging.Judged]
    room: room.Room


class Coverage:
    """The latest reading of the cloud.

    :param reader: returns a reader, which is used once
    :param closed: the gates of servers
    :param hosts: what keeps the servers of a host from being recovered
    :param evacuate_after: seconds for which a host is suspected before servers without a backup
        are evacuated
    :param pairs: also look for servers that find no room if two hosts fail at once
    """

    def __init__(self, reader: Callable[[], reading.Reader], store: stores.Store,
                 closed: servers.Gates, hosts: protection.Hosts, evacuate_after: float, *,
                 pairs: bool) -> None:
        self._reader = reader
        self._store = store
        self._closed = closed
        self._hosts = hosts
        self._evacuate_after = evacuate_after
        self._pairs = pairs
        self._reading = facts.Cached(self._read, _VALID)

    def report(self) -> dict[str, Any]:
        """Return the servers, their sums, and the hosts whose servers are not recovered now.

        :raises exception.Unreachable: a service does not answer
        """
        known = self._reading.get()
        hosts = {}
        for service in known.cloud.services:
            held, under_way = self._hosts.look(str(service['host']))
            if held or under_way:
                hosts[str(service['host'])] = [*held, *under_way]
        return {'at': known.at, **report.data(known.judged), 'hosts': hosts}

    def simulate(self, hosts: Collection[str], aggregate: str | None = None) -> dict[str, Any]:
        """Return what would become of the servers of hosts that fail together.

        :param aggregate: all hosts of this aggregate fail
        :raises exception.NotFound: Nova has no such host or aggregate
        :raises exception.Unreachable: a service does not answer
        """
        known = self._reading.get()
        names = {str(service['host']) for service in known.cloud.services}
        if aggregate is not None:
            hosts = [host for host, its in known.cloud.aggregates.items()
                     if aggregate in {each['name'] for each in its}]
            if not hosts:
                raise exception.NotFound(f'no compute host is in an aggregate {aggregate}')
        if unknown := {*hosts} - names:
            raise exception.NotFound(f'there is no compute host {min(unknown)}')
        servers = [server for server in known.cloud.servers if server.host in hosts]
        measured = forecast.measured(self._store, servers, self._evacuate_after)
        return {'at': known.at, 'hosts': sorted(hosts), 'servers': forecast.data(
            forecast.forecast(known.cloud, known.judged, known.room, hosts, measured))}

    def sums(self) -> dict[str, int]:
        """Return how many servers would get what.

        :raises exception.Unreachable: a service does not answer
        """
        return report.counted(self._reading.get().judged)

    def _read(self) -> Reading:
        at = time.time()
        try:
            reader = self._reader()
            cloud = reader.read()
            judge = judging.Judge(cloud, self._closed, {
                host.name for host in self._store.hosts() if host.generation})
            return Reading(at, cloud, *judge.look_at_all(reader.candidates, pairs=self._pairs))
        except (sdk_exceptions.SDKException, auth_exceptions.ClientException) as exc:
            raise exception.Unreachable(f'the servers of the cloud are not known: {exc}') from exc


def of(conf: cfg.ConfigOpts, store: stores.Store, clients: connect.Clients, *, pairs: bool
       ) -> Coverage:
    """Return the coverage of the configured cloud.

    :param store: the database
    """
    region = cloud_region.from_session(
        clients.session, region_name=conf.service_auth.region_name,
        interface=list(conf.service_auth.valid_interfaces))
    return Coverage(
        lambda: reading.Reader(connection.Connection(config=region),
                               describe=clients.compute.described),
        store, detection_conf.server_gates(conf.engine),
        protection.hosts(conf, store, clients.compute), conf.engine.evacuate_after, pairs=pairs)
