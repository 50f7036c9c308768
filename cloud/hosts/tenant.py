# SPDX-License-Identifier: Apache-2.0
"""A client on the network of the tenants' servers, outside of all hosts."""

from collections.abc import Sequence
import subprocess
from typing import Any

from cloud import commands
from cloud.hosts import fabric as fabrics


class Tenant:
    """A client of the servers on the network `private`, outside of all hosts."""

    def __init__(self, fabric: fabrics.Fabric) -> None:
        self._fabric = fabric

    @property
    def address(self) -> str:
        """The client's address."""
        return str(self._fabric.client_address.ip)

    def argv(self, argv: Sequence[str]) -> list[str]:
        """A command in the client's namespace."""
        return self._fabric.client_argv(*argv)

    def run(self, argv: Sequence[str], timeout: float = 60.0) -> str:
        """Run a program as the client and return its standard output.

        :param timeout: seconds
        :raises CloudError: it failed, or took too long
        """
        return commands.run(self.argv(argv), timeout=timeout)

    def popen(self, argv: Sequence[str], **options: Any) -> 'subprocess.Popen[Any]':
        """Start a program as the client, like :class:`subprocess.Popen`."""
        return subprocess.Popen(self.argv(argv), **options)

    def answers(self, address: str, seconds: float = 1.0) -> bool:
        """Return whether a server answers one ping in time."""
        done = subprocess.run(self.argv(['ping', '-n', '-q', '-c', '1', '-W', f'{seconds:g}',
                                         address]),
                              check=False, capture_output=True, stdin=subprocess.DEVNULL)
        return done.returncode == 0
