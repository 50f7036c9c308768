# SPDX-License-Identifier: Apache-2.0
"""The paths of a cluster's files, and the settings that it was created with."""

import dataclasses
import json
import pathlib
import uuid

from cloud import commands
from cloud import directory

GIB = 2**30
DEFAULT_PORT = 17300
# Ports from the base on that a cluster uses: 2 of each monitor, the rest for the other daemons.
PORTS = 100
FIRST_DAEMON_PORT = 10
MAX_MONITORS = 5
# Each OSD listens on 8 ports and takes fresh ones after it was wrongly marked down.
MAX_OSDS = 5
# A unix socket's path has at most 107 bytes; this leaves room for the names of the sockets.
MAX_PATH = 80


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings that a cluster is created with, and keeps.

    :param host: address to listen on; empty for the loopback interface
    :param monitors: number of monitors
    """

    port: int = DEFAULT_PORT
    osds: int = 3
    ipv6: bool = False
    host: str = ''
    pg_num: int = 32
    osd_bytes: int = 20 * GIB
    monitors: int = 1
    fsid: str = dataclasses.field(default_factory=lambda: str(uuid.uuid4()))

    def check(self) -> None:
        """:raises CloudError: a value is out of its range"""
        if not 1 <= self.osds <= MAX_OSDS:
            raise commands.CloudError(f'{self.osds} OSDs: choose 1 to {MAX_OSDS}')
        if not 1 <= self.monitors <= MAX_MONITORS:
            raise commands.CloudError(f'{self.monitors} monitors: choose 1 to {MAX_MONITORS}')
        if not 1024 <= self.port <= 65536 - PORTS:
            raise commands.CloudError(f'port {self.port}: choose 1024 to {65536 - PORTS}')
        if self.host and self.ipv6:
            raise commands.CloudError(f'{self.host} and IPv6: choose one')

    @property
    def address(self) -> str:
        """Where all daemons listen, in brackets if it is IPv6."""
        return self.host or ('[::1]' if self.ipv6 else '127.0.0.1')

    @property
    def monitor_addresses(self) -> dict[str, str]:
        """Return each monitor's address vector as Ceph writes it, by the id of the monitor."""
        return {chr(ord('a') + number): f'[v2:{self.address}:{port},v1:{self.address}:{port + 1}]'
                for number, port in enumerate(range(
                    self.port, self.port + 2 * self.monitors, 2))}

    @property
    def monitor(self) -> str:
        """The address vectors of all monitors."""
        return ','.join(self.monitor_addresses.values())

    @property
    def daemons(self) -> list[str]:
        """All daemons in the order in which they start."""
        return [*(f'mon.{name}' for name in self.monitor_addresses), 'mgr.x',
                *(f'osd.{number}' for number in range(self.osds))]

    def osd_uuid(self, number: int) -> str:
        """The OSD's own id, the same each time it is asked for."""
        return str(uuid.uuid5(uuid.UUID(self.fsid), f'osd.{number}'))


class Layout:
    """The paths of one cluster's files."""

    def __init__(self, root: pathlib.Path) -> None:
        """:raises CloudError: the path is too long for the sockets in it"""
        self.root = directory.short(root, MAX_PATH)
        self.run = self.root / 'run'
        self.log = self.root / 'log'
        self.daemon_conf = self.root / 'daemon.conf'
        self.admin_conf = self.root / 'admin.conf'
        self.client_conf = self.root / 'ceph.conf'
        self.settings = self.root / 'settings.json'
        self.formatted = self.root / 'formatted'
        self.lock = self.root / 'lock'

    def keyring(self, entity: str) -> pathlib.Path:
        """The keyring of a daemon (in its data directory) or of a client."""
        kind, _, _ = entity.partition('.')
        return self.root / f'{entity}.keyring' if kind == 'client' else self.data(
            entity) / 'keyring'

    def data(self, daemon: str) -> pathlib.Path:
        """The data directory of a daemon."""
        return self.root / daemon

    def load(self) -> Settings | None:
        """Return the settings that the cluster in this directory was created with."""
        try:
            return Settings(**json.loads(self.settings.read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as exc:
            raise commands.CloudError(f'{self.settings} cannot be read ({exc}); '
                                      'remove the data directory by hand') from exc

    def save(self, settings: Settings) -> None:
        """Save the settings."""
        self.settings.write_text(json.dumps(dataclasses.asdict(settings), indent=1) + '\n')
