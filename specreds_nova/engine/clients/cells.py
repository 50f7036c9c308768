# SPDX-License-Identifier: Apache-2.0
"""Nova's cells: the broker through which the nova-compute of a host is called.

Each cell may have a broker of its own. Nova's API database names it, and the cell of each host;
conductors read both for the engine, as they do for nova-compute. In a cloud with one cell, nothing
is looked up for a host.
"""

from collections.abc import Callable, Mapping
import dataclasses
import threading
import time
from typing import Any

from oslo_log import log as logging
import oslo_messaging as messaging

from specreds_nova import rpcapi
from specreds_nova.engine import exception

LOG = logging.getLogger(__name__)

# Nova's cell of servers without a host, which has no broker.
_CELL0 = '00000000-0000-0000-0000-000000000000'
# Seconds for which the cell of a host is not read again. Hosts hardly ever change their cells.
_VALID = 3600.0
# Seconds after which the cells are read again where nothing reads them beforehand.
_FRESH = 300.0
# Seconds for which conductors are not asked again that have not answered, or know no cell.
_REST = 30.0
# Of Nova's conductor: the oldest version with the method that is called.
_CONDUCTOR = messaging.Target(exchange='nova', topic='conductor', version='3.0')
# Versions of Nova's objects that are read. Nova has had them since 2018 (Rocky).
_VERSIONS = {'CellMapping': '1.1', 'CellMappingList': '1.1', 'HostMapping': '1.0'}
_CONTEXT = {'is_admin': True}


class _NotFound(Exception):
    """Nova's API database has no such object."""


@dataclasses.dataclass(frozen=True)
class _Cell:
    """A cell with its broker.

    :ivar url: of the broker; has a password
    :ivar hosts: RPC client of the cell's hosts
    """

    url: str = dataclasses.field(repr=False)
    transport: messaging.Transport
    hosts: rpcapi.BackupsAPI


class Cells:
    """RPC clients of the hosts' nova-compute, by cell. May be used by several threads.

    :param hosts: RPC client of the hosts of a cloud with one cell, and of hosts that Nova has in
        no cell
    :param transport: to the broker of conductors with Nova's API database; None if the engine
        reaches none: then all hosts are called by ``hosts``
    :param timeout: seconds that conductors may take to answer
    :param connect: returns a transport to a broker by its URL
    :param host_timeout: seconds that a host may take to answer
    """

    def __init__(self, hosts: rpcapi.BackupsAPI, transport: messaging.Transport | None,
                 timeout: float, connect: Callable[[str], messaging.Transport],
                 host_timeout: float) -> None:
        self._default = hosts
        self._conductor: Any = None if transport is None else messaging.get_rpc_client(
            transport, _CONDUCTOR, timeout=timeout)
        self._connect = connect
        self._host_timeout = host_timeout
        self._lock = threading.Lock()
        # By UUID; empty if the cloud has one cell, None before Nova has answered.
        self._cells: dict[str, _Cell] | None = None
        # Until when they need not be read again; in the past before Nova has answered.
        self._fresh_until = float('-inf')
        # By host: until when it is valid, and the UUID of the cell; None for no cell.
        self._hosts: dict[str, tuple[float, str | None]] = {}
        self._rests_until = float('-inf')

    def look(self) -> None:
        """Read the cells and their brokers. They stay as they are while Nova does not answer.

        :raises exception.Unreachable: Nova does not answer
        """
        if self._conductor is None:
            return
        with self._lock:
            if self._cells is not None:
                # Even if nobody answers: no call to a host should wait for that then.
                self._fresh_until = time.monotonic() + _FRESH
        listed = [each['nova_object.data']
                  for each in self._get('CellMappingList', 'get_all')['objects']]
        urls = {cell['uuid']: cell['transport_url'] for cell in listed if cell['uuid'] != _CELL0}
        if len(urls) < 2:
            urls = {}
        with self._lock:
            known = self._cells or {}
            self._cells = {uuid: known[uuid] if uuid in known and known[uuid].url == url
                           else self._cell(url) for uuid, url in urls.items()}
            self._fresh_until = time.monotonic() + _FRESH
            gone = [cell for uuid, cell in known.items() if self._cells.get(uuid) is not cell]
        for cell in gone:
            cell.transport.cleanup()

    def hosts(self, host: str) -> rpcapi.BackupsAPI:
        """Return the client by which a host is called.

        Before Nova has said which cells there are, that is the one of a cloud with one cell.

        :raises exception.Unreachable: there are several cells, and the one of the host is unknown
        """
        if self._conductor is None or not self._several():
            return self._default
        uuid = self._cell_of(host)
        if uuid is None:
            return self._default
        cell = self._known(uuid)
        if cell is None:
            # Made since the cells were read.
            self.look()
            cell = self._known(uuid)
        if cell is None:
            raise exception.Unreachable(f'host {host} is in cell {uuid}, which Nova does not list')
        return cell.hosts

    def beside(self, host: str, others: list[str]) -> list[str]:
        """Return which of several hosts are in the cell of a host, or may be."""
        if self._conductor is None or not self._several():
            return others
        try:
            own = self._cell_of(host)
        except exception.Unreachable:
            return others
        return [other for other in others if self._may_be_in(own, other)]

    def close(self) -> None:
        """Disconnect from the brokers of the cells."""
        with self._lock:
            cells, self._cells = self._cells or {}, None
        for cell in cells.values():
            cell.transport.cleanup()

    def _known(self, uuid: str) -> _Cell | None:
        with self._lock:
            return (self._cells or {}).get(uuid)

    def _several(self) -> bool:
        """Return whether the cloud is known to have several cells."""
        with self._lock:
            known, fresh = self._cells, time.monotonic() < self._fresh_until
        if not fresh:
            try:
                self.look()
            except exception.Unreachable as exc:
                LOG.warning('hosts are called as if %s: %s', 'there were one cell'
                            if known is None else 'no cell had changed', exc)
            with self._lock:
                known = self._cells
        return bool(known)

    def _may_be_in(self, cell: str | None, host: str) -> bool:
        try:
            return self._cell_of(host) == cell
        except exception.Unreachable:
            return True

    def _cell(self, url: str) -> _Cell:
        transport = self._connect(url)
        return _Cell(url, transport, rpcapi.BackupsAPI(transport, timeout=self._host_timeout))

    def _cell_of(self, host: str) -> str | None:
        """Return the UUID of the cell of a host; None if Nova has it in no cell.

        :raises exception.Unreachable: Nova does not answer, and has not before
        """
        now = time.monotonic()
        with self._lock:
            known = self._hosts.get(host)
        if known is not None and now < known[0]:
            return known[1]
        try:
            mapping = self._get('HostMapping', 'get_by_host', host)['cell_mapping']
            uuid: str | None = mapping['nova_object.data']['uuid']
        except _NotFound:
            uuid = None
        except exception.Unreachable:
            if known is None:
                raise
            return known[1]
        with self._lock:
            # A new host beats before Nova has it in a cell.
            self._hosts[host] = now + (_REST if uuid is None else _VALID), uuid
        return uuid

    def _get(self, name: str, method: str, *arguments: str) -> Mapping[str, Any]:
        """Return the fields of an object of Nova's API database.

        :raises _NotFound: there is no such object
        :raises exception.Unreachable: there is no answer; none is waited for in the next seconds
        """
        if time.monotonic() < self._rests_until:
            raise exception.Unreachable("Nova's conductor has not answered a moment ago")
        try:
            answer = self._conductor.call(
                _CONTEXT, 'object_class_action_versions', objname=name, objmethod=method,
                object_versions=_VERSIONS, args=arguments, kwargs={})
            fields: Mapping[str, Any] = answer['nova_object.data']
        except Exception as exc:
            # Nova's errors are of Nova's classes where these can be imported.
            if getattr(exc, 'exc_type', type(exc).__name__).startswith('HostMappingNotFound'):
                raise _NotFound from exc
            self._rests_until = time.monotonic() + _REST
            raise exception.Unreachable(
                f"Nova's conductor does not say which cells there are: {exc}") from exc
        return fields
