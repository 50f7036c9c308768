# SPDX-License-Identifier: Apache-2.0
"""What Tempest's tests do with guest G1, which has no ssh: see ``[specreds] guest_command``."""

import argparse
from collections.abc import Sequence
import json
import sys
import time
from typing import Any, Protocol

from cloud import commands
from cloud import deadline

# Seconds between two heartbeats of a guest that is busy, and in which one that is not is quiet.
_BUSY = 0.1
_QUIET = 1.0
_WRITTEN = 20.0


class Client(Protocol):
    """Somebody on the tenants' network."""

    def run(self, argv: Sequence[str], /) -> str: ...


class Here:
    """Somebody on a network from which this machine reaches guests."""

    def run(self, argv: Sequence[str]) -> str:
        """Run a program, and return its output.

        :raises CloudError: it failed
        """
        return commands.run(argv)


class Guest:
    """A guest that answers on the tenants' network.

    :param client: on that network
    """

    def __init__(self, client: Client, address: str) -> None:
        self._client = client
        self._address = address

    def identity(self) -> str:
        """Return the id of the guest's current boot."""
        return self._get('/who')

    def write(self) -> str:
        """Write to the disk, and give how often that has been done.

        :raises CloudError: it does not
        """
        before = self._count()
        self._beat(_BUSY)
        limit = deadline.Deadline(_WRITTEN)
        while self._count() == before:
            if limit.passed:
                raise commands.CloudError(f'guest {self._address} does not write')
        self._beat(0)
        # It may have begun to write once more.
        last = -1
        while (count := self._count()) != last:
            last = count
            time.sleep(_QUIET)
        return str(count)

    def read(self) -> str:
        """Return how many times the guest has written, a count that it keeps on its disk."""
        return str(self._count())

    def busy(self) -> str:
        """Let it write all the time."""
        return self._beat(_BUSY)

    def quiet(self) -> str:
        """Let it write no more."""
        return self._beat(0)

    def _beat(self, seconds: float) -> str:
        return self._get(f'/cgi-bin/heartbeat?{seconds:g}')

    def _count(self) -> int:
        heartbeat: dict[str, Any] = json.loads(self._get('/cgi-bin/heartbeat'))
        return int(heartbeat['count'])

    def _get(self, path: str) -> str:
        return self._client.run(['curl', '-sSf', '--max-time', '10',
                                 f'http://{self._address}{path}']).strip()


_ACTIONS = {'identity': Guest.identity, 'write': Guest.write, 'read': Guest.read,
            'busy': Guest.busy, 'quiet': Guest.quiet}


def _client(data: str | None) -> Client:
    if data is None:
        return Here()
    # Where this machine reaches guests itself, nothing of the cloud is installed.
    from cloud import cloud as clouds
    return clouds.Cloud(data).tenant


def main() -> int:
    """:return: the exit status: 1 if the guest does not answer"""
    parser = argparse.ArgumentParser(prog='python -m cloud.tempest_guest', description=__doc__)
    parser.add_argument('--data', help='data directory of the cloud; by default, this machine '
                                       'itself reaches guests')
    parser.add_argument('action', choices=list(_ACTIONS))
    parser.add_argument('address')
    args = parser.parse_args()
    try:
        print(_ACTIONS[args.action](Guest(_client(args.data), args.address)))
    except commands.CloudError as exc:
        print(f'error: {exc}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
