# SPDX-License-Identifier: Apache-2.0
"""Users of servers on the tenants' network: processes that report what they see."""

from collections.abc import Mapping, Sequence
import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

from cloud import cloud as openstack_cloud
from cloud import commands
from cloud import guests
from cloud import shares
from cloud.guests.client import ledger

_MODULE = 'cloud.guests.client'
_TIMEOUT = 120.0


class User:
    """A process on the tenants' network.

    :param cloud: whose tenants' network it is on
    :param scratch: a directory of its own
    """

    def __init__(self, cloud: openstack_cloud.Cloud, scratch: pathlib.Path) -> None:
        self._tenant = cloud.tenant
        self._scratch = scratch
        self._events = scratch / 'events'
        self._process: subprocess.Popen[bytes] | None = None

    def _start(self, words: Sequence[str]) -> None:
        with self._events.open('wb') as events:
            self._process = self._tenant.popen(_argv(words), stdout=events,
                                               stdin=subprocess.DEVNULL, env=_environment(),
                                               start_new_session=True)
        shares.prefer(self._process.pid, shares.USER)

    def close(self) -> None:
        """End the process if it runs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(timeout=_TIMEOUT)
            self._process = None

    def stop(self) -> dict[str, Any]:
        """End it if it runs, and return the summary."""
        self.close()
        summary: dict[str, Any] = self.events('summary')[-1]['more']
        return summary

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Return its events so far; `at` is in seconds since the epoch.

        :param kind: only events of this one
        """
        # The last line may not be complete.
        lines = self._events.read_text().split('\n')[:-1]
        return [event for event in map(json.loads, lines) if kind in (None, event['event'])]


class Postgres(User):
    """A client that writes to a PostgreSQL server and reads from it all the time.

    :param address: of a server of image g2 or g3, which have the same accounts
    :param payload: characters that a transaction writes
    """

    def __init__(self, cloud: openstack_cloud.Cloud, scratch: pathlib.Path,
                 address: str, payload: int = 100) -> None:
        super().__init__(cloud, scratch)
        self._log = scratch / 'acknowledged'
        self._server = ['--log', str(self._log), '--payload', str(payload), *_database(address)]

    def start(self, *options: str) -> None:
        """Begin.

        :param options: of the client's command line
        """
        self._start(['run', *options, *self._server])

    def acknowledged(self) -> int:
        """Return how many transactions have been acknowledged so far."""
        try:
            return self._log.read_bytes().count(b'\n')
        except FileNotFoundError:
            return 0

    def ledger(self) -> dict[int, float]:
        """Return when each transaction was acknowledged, in seconds since the epoch."""
        return ledger.read(self._log)

    def verify(self) -> dict[str, Any]:
        """Read everything back, and return which acknowledged transactions are missing or wrong.

        :raises CloudError: the server does not answer
        """
        done = subprocess.run(self._tenant.argv(_argv(['verify', *self._server])), check=False,
                              capture_output=True, text=True, timeout=_TIMEOUT,
                              env=_environment())
        *_, last = map(json.loads, done.stdout.splitlines() or ['{"event": null}'])
        if last['event'] != 'verified':
            raise commands.CloudError(f'the database cannot be verified: {last} {done.stderr}')
        differences: dict[str, Any] = last['more']
        return differences


class Callers(User):
    """Users of a PostgreSQL server who come one after the other and wait to be served.

    :param address: of a server as of :class:`Postgres`
    """

    def start(self, address: str) -> None:
        """Begin."""
        self._start(['call', *_database(address)])

    def waits(self, event: float, until: float) -> tuple[float, ...]:
        """Return for how many seconds users waited; nothing while one of them still waits.

        :param event: only users who were not served before, in seconds since the epoch
        :param until: only users who came before
        """
        served = {event['more']['came']: float(event['at']) for event in self.events('served')}
        came = [float(event['more']['came']) for event in self.events('came')]
        users = [(at, served.get(at)) for at in came if at < until]
        if any(at is None for _, at in users):
            return ()
        return tuple(at - began for began, at in users if at is not None and at > event)


class Pinger(User):
    """A client that asks all the time which guest answers under an address."""

    def start(self, address: str, kind: str = 'icmp', interval: float = 0.01) -> None:
        """Begin.

        :param kind: how it asks: icmp, arp or who
        :param interval: seconds
        """
        self._start(['ping', address, '--kind', kind, '--interval', f'{interval:g}'])


def failed(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the outages of a summary with failures; others were only slow."""
    return [outage for outage in summary['outages'] if outage['errors']]


def _database(address: str) -> list[str]:
    return ['--account', str(guests.image('g2').with_name('image.json')), address]


def _argv(words: Sequence[str]) -> list[str]:
    return [sys.executable, '-m', _MODULE, *words]


def _environment() -> dict[str, str]:
    return {**os.environ, 'PYTHONPATH': str(pathlib.Path(__file__).parents[1])}
