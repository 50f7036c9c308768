# SPDX-License-Identifier: Apache-2.0
"""The stage of the scenarios: two servers on one host, and their users."""

from collections.abc import Iterator
import contextlib
import dataclasses
import pathlib
import tempfile
import time
from typing import Any

from keystoneauth1 import exceptions as keystone_exceptions

from cloud import cloud as openstack_cloud
from cloud import drill as drills
from cloud import users
from cloud.demo import recoveries
from cloud.demo import screen as screens
from cloud.hosts import host as one_host
from cloud.openstack import services

# The host of the servers, and the destination of evacuations by hand.
HOME, OTHER = 'cn1', 'cn2'
# Seconds between two writes of the web server, which has no other work.
_HEARTBEAT = 0.5
# Seconds between two pings.
_PING = 0.05
# Number of transactions after which the database counts as serving again.
_ENOUGH = 20
# Seconds for a guest to boot and recover, and for a host to accept work again.
_TIMEOUT, _RETURN = 240.0, 240.0


@dataclasses.dataclass(frozen=True)
class Database:
    """The kind of a database's server.

    :ivar image: the image of its guest
    :ivar ready: whether it has a condition of readiness
    :ivar payload: characters that each transaction of its client writes
    """

    image: str = 'g2'
    ready: bool = True
    payload: int = 100


# A small guest that says when it serves, and an ordinary distribution that does not.
SMALL, ORDINARY = Database(), Database('g3', ready=False)


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two servers on one host, and their users.

    :ivar web: a server that reports its identity, and writes from time to time
    """

    database: drills.Server
    web: drills.Server
    client: users.Postgres
    pinger: users.Pinger

    @property
    def servers(self) -> tuple[drills.Server, drills.Server]:
        """Return both servers."""
        return self.database, self.web


class Stage:
    """A cloud with compute hosts for the scenarios.

    :param cloud: a running cloud with hosts
    :param scratch: the directory for the logs of clients
    :raises CloudError: an expected condition is not reached in time
    """

    def __init__(self, cloud: openstack_cloud.Cloud, scratch: pathlib.Path,
                 screen: screens.Screen) -> None:
        self.cloud = cloud
        self.drill = drills.Drill(cloud)
        self.screen = screen
        self.engine = recoveries.Engine(cloud.session())
        self._scratch = scratch
        self._count = 0

    def close(self) -> None:
        """Disconnect."""
        self.drill.close()

    @property
    def home(self) -> one_host.Host:
        """Return the host that has the accidents."""
        return self.cloud.host(HOME)

    # Servers

    @contextlib.contextmanager
    def servers(self, *options: str, database: Database = SMALL) -> Iterator[Pair]:
        """Provide two new servers with users while the context lasts.

        :param options: options of the database's client
        :param database: the kind of the database's server
        """
        self._count += 1
        made: list[str] = []
        if database.image == ORDINARY.image:
            with self.screen.busy('the image of an ordinary Debian is looked for, or made'):
                self.cloud.provide(database.image, self.screen.say)
        with contextlib.ExitStack() as undo:
            undo.callback(self._remove, made)
            with self.screen.busy(f'two servers boot on {HOME}: a PostgreSQL, and a small one '
                                  'that writes now and then'):
                made.append(self._boot('database', database.image, ready=database.ready))
                made.append(self._boot('web', 'g1'))
                server, web = map(self.drill.active, made)
                pair = Pair(server, web, users.Postgres(self.cloud, self._directory(),
                                                        server.address, database.payload),
                            users.Pinger(self.cloud, self._directory()))
                for server in pair.servers:
                    self.answers(server)
                self.get(web, f'/cgi-bin/heartbeat?{_HEARTBEAT:g}')
                # `leave` sets the state of the screen, so the state is reset after it.
                undo.callback(setattr, self.screen, 'state', str)
                undo.callback(self.leave, pair)
                pair.client.start(*options)
                pair.pinger.start(web.address, interval=_PING)
                self.drill.wait_guest(server, 'the database to be used',
                                      lambda: pair.client.acknowledged() > _ENOUGH, _TIMEOUT)
            self.screen.state = lambda: self._state(pair)
            yield pair

    @contextlib.contextmanager
    def callers(self, server: drills.Server) -> Iterator[users.Callers]:
        """Let users of a database come one after the other while the context lasts."""
        callers = users.Callers(self.cloud, self._directory())
        with contextlib.closing(callers):
            callers.start(server.address)
            yield callers

    @contextlib.contextmanager
    def small(self, *, ready: bool = True) -> Iterator[tuple[drills.Server, users.Pinger]]:
        """Provide one new small server, which boots within seconds, and is pinged.

        :param ready: whether it has a condition of readiness
        """
        self._count += 1
        made: list[str] = []
        with contextlib.ExitStack() as undo:
            undo.callback(self._remove, made)
            with self.screen.busy(f'a small server boots on {HOME}'):
                made.append(self._boot('small', 'g1', ready=ready))
                server = self.drill.active(made[0])
                self.answers(server)
            pinger = users.Pinger(self.cloud, self._directory())
            undo.callback(pinger.stop)
            pinger.start(server.address, interval=_PING)
            yield server, pinger

    def answers(self, server: drills.Server) -> None:
        """Wait until a server's guest answers."""
        self.drill.wait_guest(server, f'{server.name} to answer',
                              lambda: self.cloud.tenant.answers(server.address), _TIMEOUT)

    def pinged(self, pinger: users.Pinger, event: float) -> None:
        """Wait until pings are answered again after an accident."""
        self.drill.wait('pings to be answered again', lambda: any(
            outage['more']['ended'] > event for outage in pinger.events('outage')), _TIMEOUT)

    def get(self, server: drills.Server, path: str) -> str:
        """Return the small server's answer to an HTTP request of a tenant."""
        return self.cloud.tenant.run(['curl', '-sS', '--retry', '5', '--retry-connrefused',
                                      '--max-time', '10',
                                      f'http://{server.address}{path}']).strip()

    def use(self, pair: Pair, seconds: float) -> None:
        """Wait while the database is used."""
        with self.screen.busy(f'the database is used, {seconds:g} s'):
            time.sleep(seconds)

    def leave(self, pair: Pair) -> tuple[dict[str, Any], dict[str, Any]]:
        """Stop the users of the servers, and return the summaries of both."""
        self.screen.state = lambda: self._state(pair, used=False)
        return pair.client.stop(), pair.pinger.stop()

    def served(self, pair: Pair) -> float:
        """Wait until both servers serve again; return the time of the database's return."""
        known = pair.client.acknowledged()
        self.drill.wait('the database to serve again', lambda: (
            pair.client.acknowledged() >= known + _ENOUGH), _TIMEOUT)
        served = sorted(pair.client.ledger().values())[known]
        self.answers(pair.web)
        return served

    # The host

    def kill(self) -> float:
        """Switch the servers' host off at once, and return the time."""
        event = time.time()
        self.home.kill()
        self.screen.say(f'{HOME} is dead: every process on it was killed')
        return event

    def boot(self) -> None:
        """Boot the servers' host, and wait until it accepts work, without further help."""
        with self.screen.busy(f'{HOME} boots, is cleaned, and takes work again'):
            self.home.boot()
            self.cloud.wait_ready(_RETURN)

    def mend(self) -> None:
        """Return the servers' host to service, with all steps of an operator."""
        self.home.heal()
        self.home.boot()
        self.drill.bring_up(HOME)
        self.cloud.wait_ready(_RETURN)

    # The engine

    def engines(self, on: bool) -> None:
        """Start or stop the engines."""
        for number in self.cloud.settings.engine_numbers:
            name = services.engine(number)
            if on:
                self.cloud.start_daemon(name)
            else:
                self.cloud.stop_daemon(name)
        if on:
            self.cloud.wait_ready()
            self.trusted()

    def trusted(self) -> None:
        """Wait until the engine has heard of all hosts, and suspects none."""
        self.drill.wait('the engine to trust all hosts', self._all_trusted, _RETURN)

    def recovery(self, server: drills.Server) -> recoveries.Recovery | None:
        """Return the latest recovery of a server; None if there is none, or no answer."""
        try:
            return self.engine.latest(server.id)
        except keystone_exceptions.ClientException:
            return None

    def begun(self, server: drills.Server) -> None:
        """Wait until the engine has started a backup of a server, or ended its recovery."""
        def found() -> bool:
            recovery = self.recovery(server)
            return recovery is not None and (recovery.over or recovery.begun('race'))
        self.drill.wait(f'the engine to start a backup of {server.name}', found, _TIMEOUT)

    def ended(self, server: drills.Server) -> recoveries.Recovery:
        """Wait until the engine has ended the recovery of a server, and return the recovery."""
        def found() -> recoveries.Recovery | None:
            recovery = self.recovery(server)
            return recovery if recovery is not None and recovery.over else None
        ended: recoveries.Recovery = self.drill.wait(
            f'the recovery of {server.name} to end', found, _TIMEOUT)
        return ended

    def _all_trusted(self) -> bool:
        try:
            known = self.engine.hosts()
        except keystone_exceptions.ClientException:
            return False
        return all(known.get(name) == recoveries.TRUSTED
                   for name in self.cloud.settings.host_names)

    # Common

    def _boot(self, name: str, image: str, *, ready: bool = True) -> str:
        # cloud-init waits for its data, and this cloud has no metadata service.
        return self.drill.boot_later(f'{name}-{self._count}', HOME, image=image,
                                     metadata=drills.READY[image] if ready else None,
                                     config_drive=image == ORDINARY.image)

    def _directory(self) -> pathlib.Path:
        return pathlib.Path(tempfile.mkdtemp(dir=self._scratch))

    def _remove(self, made: list[str]) -> None:
        with self.screen.busy('the servers are removed'):
            # Mend the host first: Nova deletes a server on a dead host without its host's help.
            self.mend()
            for server_id in made:
                self.drill.delete(server_id)

    def _state(self, pair: Pair, *, used: bool = True) -> str:
        """Return the state of hosts, database and recoveries in one line.

        :param used: whether the database has a client
        """
        words = [f'{host.name} {host.state}' + (' (cut off)' if host.cuts else '')
                 for host in self.cloud.hosts if host.state != one_host.RUNNING or host.cuts]
        done = list(pair.client.ledger().values()) if used else []
        if done:
            silent = time.time() - done[-1]
            words.append(f'database silent for {silent:.1f} s' if silent > 1 else
                         f'{sum(moment > time.time() - 1 for moment in done)} transactions/s')
        for server in pair.servers:
            words += _recovery(server, self.recovery(server))
        return ', '.join(words)


def _recovery(server: drills.Server, recovery: recoveries.Recovery | None) -> list[str]:
    """Return the progress of a recovery."""
    if recovery is None:
        return []
    if recovery.over:
        return [f'{server.name}: {recovery.outcome}']
    return [f'{server.name}: {recovery.steps[-1].name if recovery.steps else recovery.state}']
