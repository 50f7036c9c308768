# SPDX-License-Identifier: Apache-2.0
"""Whether a cloud is of use yet: everything answers, and knows of everything else."""

from collections.abc import Callable, Mapping, Sequence
import time

import amqp
from keystoneauth1 import exceptions as keystone_exceptions
from keystoneauth1 import session as keystone_session

from cloud import commands
from cloud import deadline
from cloud.openstack import broker
from cloud.openstack import cinder
from cloud.openstack import compute
from cloud.openstack import engine
from cloud.openstack import layout
from cloud.openstack import probes
from cloud.openstack import reported
from cloud.openstack import services

# Seconds in which a Neutron agent has reported, unless it hangs.
_PATIENCE = 45.0


def wait(missing: Callable[[], str], timeout: float,
         meanwhile: Callable[[], None] = lambda: None) -> None:
    """Wait until nothing is missing.

    :param missing: says what is; nothing is if it is empty
    :param timeout: seconds on a machine that has nothing else to do
    :param meanwhile: what is done again and again
    :raises CloudError: something was by then
    """
    limit = deadline.Deadline(timeout)
    while words := missing():
        if limit.passed:
            raise commands.CloudError(f'after {limit.elapsed:.0f} s: {words}; '
                                      '`./run cloud status` says more')
        meanwhile()
        time.sleep(0.2)


class Revival:
    """Starts Neutron's agents again that hang at their start.

    Now and then an agent of Neutron 29 waits for itself when it has just begun, and for ever.

    :param mute: gives the hosts whose agents have not reported
    :param restart: starts the agent of a host again
    """

    def __init__(self, mute: Callable[[], set[str]], restart: Callable[[str], None]) -> None:
        self._mute = mute
        self._restart = restart
        self._since = time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._since < _PATIENCE:
            return
        for host in self._mute():
            self._restart(host)
        self._since = time.monotonic()


class Readiness:
    """Asks what is missing.

    :param workers: the services without an API
    :param pools: pools of which Cinder's scheduler has to know
    :param session: makes one of the administrator
    :param hosts: gives the compute hosts that are on
    :param stopped: gives the services that were stopped on purpose
    """

    def __init__(self, settings: layout.Settings, passwords: Mapping[str, str],
                 workers: Sequence[reported.Worker], pools: Sequence[str],
                 session: Callable[[], keystone_session.Session],
                 hosts: Callable[[], list[str]],
                 stopped: Callable[[], list[str]] = list) -> None:
        self._settings = settings
        self._passwords = passwords
        self._workers = workers
        self._pools = pools
        self._session = session
        self._hosts = hosts
        self._stopped = stopped

    def revival(self, restart: Callable[[str], None]) -> Revival:
        """What helps agents that hang.

        :param restart: starts the agent of a host again
        """
        def mute() -> set[str]:
            if not self._settings.hosts:
                return set()
            try:
                return compute.mute(self._session(), self._hosts())
            except (OSError, keystone_exceptions.ClientException):
                return set()
        return Revival(mute, restart)

    def silent(self) -> str:
        """What is in the way of asking every API; empty if nothing is."""
        for name, port in services.api_ports(self._settings).items():
            try:
                probes.versions(self._settings.url(port, '/'))
            except (OSError, commands.CloudError) as exc:
                return f'{name} does not answer ({exc})'
        return ''

    def missing(self) -> str:
        """What is in the way of creating a volume or a server; empty if nothing is."""
        session = self._session()
        try:
            stopped = self._stopped()
            idle = broker.idle(self._settings, self._passwords,
                               [worker.queue for worker in self._workers
                                if worker.name not in stopped])
            if idle:
                return f'nobody listens to {", ".join(idle)}'
            absent = set(self._pools) - set(cinder.Api(session).pools())
            if absent:
                return f'the scheduler has not heard of {", ".join(sorted(absent))}'
            if words := engine.missing(self._settings, stopped):
                return words
            return compute.missing(session, self._hosts()) if self._settings.hosts else ''
        except (OSError, amqp.AMQPError, keystone_exceptions.ClientException) as exc:
            return str(exc).split('\n')[0]
