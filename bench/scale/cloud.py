# SPDX-License-Identifier: Apache-2.0
"""Nova, Placement, Cinder and hosts in the process of an engine, with latencies."""

from collections.abc import Callable, Collection, Mapping, Sequence
import dataclasses
import random
import threading
import time
from typing import Any
import uuid

from bench.scale import latency
from cloud import commands
from specreds_nova.engine import model

HOSTS = 6


@dataclasses.dataclass
class Cloud:
    """Simulated Nova, Placement, Cinder and hosts, with latencies.

    :ivar hosts: number of hosts that live
    """

    servers_there: int
    hosts: int = HOSTS
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self.compute = self.volumes = self.backups = self
        self._random = random.Random(1)
        self._lock = threading.Lock()
        self._asked: dict[str, float] = {}
        # By backup that was begun: the time at which it runs.
        self._until: dict[str, float] = {}
        self._superpositions: dict[str, str] = {}
        self._unforeseen: set[str] = set()
        self._all = threading.Event()
        self._servers = [self._server(number) for number in range(self.servers_there)]

    def started(self, timeout: float) -> float:
        """Wait until every backup is requested, and return the time of the last request.

        :raises CloudError: a request did not come in time, or a call is not simulated
        """
        waited = self._all.wait(timeout)
        if self._unforeseen:
            raise commands.CloudError(
                f'the engine asked for {", ".join(sorted(self._unforeseen))}, which the simulated '
                f'cloud does not know')
        if not waited:
            raise commands.CloudError(
                f'{len(self._asked)} of {self.servers_there} backups were asked for in '
                f'{timeout:g} s')
        return max(self._asked.values())

    def takes(self, between: tuple[float, float]) -> None:
        time.sleep(self._random.uniform(*between))

    @staticmethod
    def _server(number: int) -> model.Server:
        # The same in each process, as an engine may continue the work of another one.
        server, volume = (str(uuid.uuid5(uuid.NAMESPACE_OID, f'{kind}{number}'))
                          for kind in ('vm', 'volume'))
        return model.Server(
            id=server, name=f'vm{number}', project='p', host='dead', status='ACTIVE', task=None,
            locked=False, zone='nova', flavor={'vcpus': 1, 'ram': 64, 'disk': 0},
            volumes=(volume,))

    # Suspects

    def suspected(self, host: str) -> bool:
        """Return whether this is the host that dies."""
        return host == 'dead'

    def healthy(self) -> list[str]:
        """Return the other hosts."""
        return [f'host{number}' for number in range(self.hosts)]

    def await_ready(self, host: str, signs: Sequence[str], seconds: float) -> bool:
        """Report that no backup is ready."""
        self.sleep(seconds)
        return False

    def flaps(self, host: str) -> int:
        """Report that no suspicion was wrong."""
        del host
        return 0

    def running(self, host: str, server: str) -> bool | None:
        """Report that the state is unknown."""
        del host, server
        return None

    def heard_after(self, host: str, at: float) -> bool:
        """Return whether a host lives."""
        return self.is_well(host)

    def speaks(self, host: str) -> bool:
        """Report that no sentinel is heard."""
        del host
        return False

    def is_well(self, host: str) -> bool:
        """Report that all other hosts beat."""
        return host != 'dead'

    # Compute

    def servers(self, host: str) -> list[model.Server]:
        """Return all servers."""
        self.takes(latency.LIST)
        return self._servers

    def server(self, server_id: str) -> model.Server | None:
        """Return one server."""
        self.takes(latency.NOVA)
        return next(server for server in self._servers if server.id == server_id)

    def candidates(self, server: model.Server, placed: Mapping[str, str] | None = None,
                   avoid: Collection[str] = ()) -> list[str]:
        """Return the living hosts as candidates."""
        del placed, avoid
        self.takes(latency.NOVA)
        return self.healthy()

    def suits_group(self, server: model.Server, host: str, placed: Mapping[str, str]) -> bool:
        """Return that every host suits."""
        del server, host, placed
        return True

    def permits(self, server: model.Server, host: str) -> bool:
        """Return that every host is allowed."""
        del server, host
        return True

    def immovable(self, server: model.Server) -> str | None:
        """Report that Nova evacuates every server."""
        del server
        return None

    def service(self, host: str) -> Mapping[str, Any]:
        """Report that the service is up."""
        self.takes(latency.NOVA)
        return {'up': True, 'enabled': True, 'forced_down': False, 'updated': 0.0}

    # Volumes

    def superpose(self, server: model.Server, recovery_id: str, reason: str,
                  dead_host: str | None = None) -> str:
        """Return a new superposition."""
        self.takes(latency.SUPER)
        return str(uuid.uuid4())

    def dirty(self, superposition_id: str) -> bool:
        """Report that the primary has not written."""
        self.takes(latency.NOVA)
        return False

    def state(self, superposition_id: str) -> str | None:
        """Report that the superposition is superposed."""
        self.takes(latency.NOVA)
        return 'superposed'

    # Backups

    def start(self, host: str, backup_id: str, server_id: str, superposition_id: str
              ) -> Mapping[str, Any]:
        """Record the time of the request."""
        self._begun(server_id)
        self.takes(latency.RPC if backup_id in self._until else latency.START)
        return {'phase': 'running', 'ready': False}

    def begin(self, host: str, backup_id: str, server_id: str, superposition_id: str
              ) -> None:
        """Record the time of the request."""
        self.takes(latency.RPC)
        self._begun(server_id)
        with self._lock:
            self._superpositions[backup_id] = superposition_id
            self._until[backup_id] = time.monotonic() + self._random.uniform(*latency.START)

    def _begun(self, server_id: str) -> None:
        with self._lock:
            self._asked.setdefault(server_id, time.monotonic())
            if len(self._asked) >= self.servers_there:
                self._all.set()

    def status(self, host: str, backup_id: str) -> Mapping[str, Any]:
        """Report that the backup is not ready."""
        self.takes(latency.RPC)
        if time.monotonic() < self._until.get(backup_id, 0.0):
            return {'phase': 'starting', 'ready': False, 'domain': None}
        return {'phase': 'running', 'ready': False, 'domain': {'state': 'running'},
                'superposition_id': self._superpositions.get(backup_id)}

    def __getattr__(self, name: str) -> Any:
        # Engines survive unforeseen errors, and the figure would be wrong.
        self._unforeseen.add(name)
        raise AttributeError(
            f'{name} is not simulated: engines do not call it before the backups have started')
