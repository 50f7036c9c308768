# SPDX-License-Identifier: Apache-2.0
"""Kill engines, broker and database in the middle of recoveries, and check the end.

A small server's guest is killed with nova-compute and the sentinel, as if its host were dead. As
soon as a step has begun, the engine that runs it is killed with -9; once for each step. Likewise
the database stands still, for 5, 30 and 60 s. Then, in the middle of the race, the broker and the
database are killed and started again. The server goes from host to host: each is where the next
recovery's primary dies.

Then the host itself does what looks like life: it reboots in the middle of the race, or its
nova-compute, which has hung, says goodbye then; or it is cut off from all but the tenants' network
and lives. Other deaths have company: the host had no sentinel before, or the server leaves it by a
live migration, or Nova's scheduler is away, or what a controller runs dies in the same moment.

At last nothing dies, and no server may be recovered or hidden: Ceph or the database stands still,
or the broker is away.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
import contextlib
import dataclasses
import functools
import json
import os
import signal
import time
from typing import Any

from keystoneauth1 import exceptions as keystone_exceptions

from cloud import cloud as openstack_cloud
from cloud import commands
from cloud import drill as drills
from cloud.demo import recoveries
from cloud.demo import stage as stages
from cloud.hosts import host as cloud_hosts
from cloud.hosts import services as host_services
from cloud.openstack import accounts
from cloud.openstack import database
from cloud.openstack import services
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs

# Seconds between two writes of the guest, and between two looks at a recovery.
_HEARTBEAT = '0.5'
_POLL = 0.005
# Longest time until a recovery has ended, in seconds.
_TIMEOUT = 300.0
# Seconds without a broker, and seconds until the cloud has settled after it.
_OUTAGE, _AFTER = 60.0, 20.0
# Seconds for which the database stands still in each step; the last one also without a death.
_DATABASE_S = (5.0, 30.0, 60.0)
# Seconds for which Ceph stands still, and for which Nova's scheduler is away.
_STALL_S, _AWAY_S = 20.0, 60.0
# Seconds for which a server that lives is pinged before a fault.
_BEFORE = 3.0
# What is killed and started again in the middle of the race.
_SERVICES = (services.BROKER, services.DATABASE)
_RACE = 'race'
# Whether there is this step, too, depends on which beat of the host was its last one.
_SOMETIMES = frozenset({runs.UNSEEN})


@dataclasses.dataclass
class Faults:
    """Outcome of the injected faults.

    :ivar longest_s: from the death of a primary until its server answered again
    """

    count: int = 0
    right: int = 0
    longest_s: float = 0.0
    wrong: list[str] = dataclasses.field(default_factory=list)


class _Injector:
    """Injects faults into the recoveries of one server.

    :param server: of image g1
    """

    def __init__(self, stage: stages.Stage, server: drills.Server) -> None:
        self.stage = stage
        self._drill = stage.drill
        self._cloud = stage.cloud
        self._known: set[str] = set()
        self.server = server

    def round(self, case: '_Case') -> tuple[float, list[str]]:
        """Make the engines recover the server, and inject a fault meanwhile.

        :returns: seconds until it answered again, and what is not as it should be
        """
        lived = self._beats()
        host = self._cloud.host(self.server.host)
        case.accident(self, host)
        event = time.monotonic()
        with futures.ThreadPoolExecutor() as pool:
            harmed = pool.submit(case.harm, self)
            self.stage.answers(self.server)
            took = time.monotonic() - event
            harmed.result()
        wrong = self._ended(case.ends)
        host.heal()
        host.boot()
        self._cloud.wait_ready()
        self.stage.trusted()
        self.server = self._drill.active(self.server.id)
        wrong += self._guests(host.name)
        beats = self._beats()
        if beats < lived:
            wrong.append(f'the guest had written {lived} times, and reads {beats}')
        return took, wrong

    # Accidents

    def die(self, host: cloud_hosts.Host) -> None:
        """Kill what speaks for the host, and the guest."""
        host.kill_program(host_services.SENTINEL)
        host.kill_program(host_services.COMPUTE)
        self._kill_guest(host)

    def hang(self, host: cloud_hosts.Host) -> None:
        """Stop nova-compute where it stands, and kill the sentinel and the guest."""
        host.kill_program(host_services.SENTINEL)
        host.kill_program(host_services.COMPUTE, signal.SIGSTOP)
        self._kill_guest(host)

    def die_unseen(self, host: cloud_hosts.Host) -> None:
        """Kill nova-compute and the guest on a host whose sentinel is missed already."""
        host.kill_program(host_services.SENTINEL)
        self._drill.wait('the engines to miss the sentinel', lambda: database.rows(
            self._cloud.files, accounts.ENGINE,
            'SELECT name FROM hosts WHERE name = %s AND sentinel = %s', host.name, model.SILENT))
        host.kill_program(host_services.COMPUTE)
        self._kill_guest(host)

    def die_drained(self, host: cloud_hosts.Host) -> None:
        """Let the host die as soon as Nova moves the server away."""
        self._drill.act(self.server.id, 'os-migrateLive',
                        {'host': None, 'block_migration': 'auto'})
        self._drill.wait('the server to be moved', lambda: (
            self._drill.show(self.server.id)['OS-EXT-STS:task_state'] == 'migrating'))
        self.die(host)

    def die_unscheduled(self, host: cloud_hosts.Host) -> None:
        """Let the host die while Nova has no scheduler."""
        self._cloud.kill_daemon(services.NOVA_SCHEDULER)
        self.die(host)

    def die_beside_controller(self, host: cloud_hosts.Host) -> None:
        """Let the host die, and kill what one controller may run."""
        for name in (services.BROKER, services.DATABASE, services.NOVA_SCHEDULER,
                     services.engine(self._cloud.settings.engine_numbers[0])):
            self._cloud.kill_daemon(name)
        self._cloud.ceph.kill_daemon('osd.0')
        self.die(host)

    @staticmethod
    def cut_off(host: cloud_hosts.Host) -> None:
        """Cut the host off from all but the tenants' network; the guest lives."""
        host.cut(control=True, storage=True)

    def _kill_guest(self, host: cloud_hosts.Host) -> None:
        pid = self._drill.pid(self.server, host.name)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    # Faults

    def reboot(self) -> None:
        """Switch the host off in the middle of the race, and on again."""
        host = self._cloud.host(self.server.host)
        self.wait_step(_RACE)
        host.kill()
        host.boot()

    def say_goodbye(self) -> None:
        """Let the nova-compute that hangs end in good order, in the middle of the race."""
        host = self._cloud.host(self.server.host)
        self.wait_step(_RACE)
        host.kill_program(host_services.COMPUTE, signal.SIGTERM)
        host.kill_program(host_services.COMPUTE, signal.SIGCONT)

    def kill_engine(self, step: str) -> None:
        """Kill the engine that runs a step, as soon as the step has begun."""
        engine = self.wait_step(step)
        number = next(candidate for candidate in self._cloud.settings.engine_numbers
                      if services.engine(candidate) in engine)
        pid = self._cloud.pid(services.engine(number))
        # supervisord starts it again, as systemd would.
        os.kill(pid, signal.SIGKILL)

    def restart(self, service: str) -> None:
        """Kill a service in the middle of the race, and start it again."""
        self.wait_step(_RACE)
        self._cloud.kill_daemon(service)
        self._cloud.start_daemon(service)

    def freeze_database(self, step: str, seconds: float) -> None:
        """Let the database stand still, as soon as the step has begun.

        :param seconds: how long
        """
        self.wait_step(step)
        _without_database(self._cloud, seconds)

    def schedule_again(self) -> None:
        """Start Nova's scheduler again, after a while."""
        time.sleep(_AWAY_S)
        self._cloud.start_daemon(services.NOVA_SCHEDULER)

    def repair_controller(self) -> None:
        """Start again what a controller runs, in the order in which it would."""
        self._cloud.ceph.start_daemon('osd.0')
        for name in (services.DATABASE, services.BROKER, services.NOVA_SCHEDULER,
                     services.engine(self._cloud.settings.engine_numbers[0])):
            self._cloud.start_daemon(name)

    def wait_step(self, step: str) -> str:
        """Wait until a step has begun, and return the engine that runs it."""
        deadline = time.monotonic() + _TIMEOUT
        while not (engine := self._engine(step)):
            if time.monotonic() > deadline:
                raise commands.CloudError(f'there is no step {step} after {_TIMEOUT:g} s')
            time.sleep(_POLL)
        return engine

    def _engine(self, step: str) -> str:
        # The API is too slow for this: the shortest step would end before the answer.
        rows = database.rows(
            self._cloud.files, accounts.ENGINE,
            'SELECT s.engine, s.recovery FROM recovery_steps s JOIN recoveries r '
            'ON r.id = s.recovery WHERE r.server = %s AND s.name = %s', self.server.id, step)
        return next((str(engine) for engine, recovery in rows if recovery not in self._known),
                    '')

    def _ended(self, ends: Sequence[str]) -> list[str]:
        """Wait until the recovery and its merge have ended, and return what is wrong with it.

        :param ends: outcomes that are right
        """
        def over() -> list[recoveries.Recovery]:
            try:
                fresh = [self.stage.engine.recovery(recovery) for recovery in
                         self.stage.engine.ids(self.server.id) if recovery not in self._known]
            except keystone_exceptions.ClientException:
                return []
            return fresh if fresh and all(recovery.over for recovery in fresh) else []
        ended = self._drill.wait(f'the recovery of {self.server.name} to end', over, _TIMEOUT)
        self._known |= {recovery.id for recovery in ended}
        wrong = [] if len(ended) == 1 else [f'there were {len(ended)} recoveries']
        return wrong + [f'it ended {recovery.outcome}: {recovery.error}' for recovery in ended
                        if recovery.outcome not in ends]

    def _guests(self, before: str) -> list[str]:
        """Return what is wrong with where the server's guest runs."""
        running = self._drill.running(self.server)
        if running == [self.server.host] and self.server.host != before:
            return []
        return [f'the guest runs on {running}; Nova says on {self.server.host}']

    def _beats(self) -> int:
        """Return how many times the guest has written to its disk."""
        answer: dict[str, Any] = json.loads(self.stage.get(self.server, '/cgi-bin/heartbeat'))
        return int(answer['count'])


_Harm = Callable[[_Injector], None]
_Accident = Callable[[_Injector, cloud_hosts.Host], None]


@dataclasses.dataclass(frozen=True)
class _Case:
    """A fault that is injected into a recovery, and the accident that leads to the recovery.

    :ivar ends: outcomes that are right
    """

    what: str
    harm: _Harm
    accident: _Accident = _Injector.die
    ends: Sequence[str] = (recoveries.RECOVERED,)


def _nothing(injector: _Injector) -> None:
    """Inject no fault."""
    del injector


def run(stage: stages.Stage) -> Faults:
    """Inject all faults, one after the other."""
    tally = Faults()
    todo = [_Case('nothing fails', _nothing)]
    while todo:
        # A server with a failed recovery cannot be recovered again.
        with _server(stage) as injector:
            while todo:
                if not _one(injector, tally, todo.pop(0)):
                    break
                if tally.count == 1:
                    todo += _cases(_steps(stage, injector.server))
    return tally


def _one(injector: _Injector, faults: Faults, case: _Case) -> bool:
    """Inject one fault, record its outcome, and return whether the recovery has ended."""
    screen = injector.stage.screen
    took, ended = 0.0, True
    wrong: list[str] = []
    with screen.busy(case.what):
        try:
            took, wrong = injector.round(case)
        except commands.CloudError as exc:
            wrong, ended = [str(exc)], False
    screen.say(f'served again after {took:.1f} s' if ended else 'it has come to no end')
    for words in wrong:
        screen.say(f'WRONG: {words}')
    faults.count += 1
    faults.right += not wrong
    faults.longest_s = max(faults.longest_s, took)
    faults.wrong += [f'{case.what}: {words}' for words in wrong]
    return ended


def _cases(steps: Iterable[str]) -> list[_Case]:
    """Return all faults.

    :param steps: the steps of a recovery
    """
    return [
        *(_Case(f'an engine is killed when {step} has begun',
                functools.partial(_Injector.kill_engine, step=step)) for step in steps),
        *(_Case(f'the database stands still for {seconds:g} s when {step} has begun',
                functools.partial(_Injector.freeze_database, step=step, seconds=seconds))
          for step in steps for seconds in _DATABASE_S),
        *(_Case(f'{service} is killed in the middle of the race, and started again',
                functools.partial(_Injector.restart, service=service)) for service in _SERVICES),
        _Case('the host reboots in the middle of the race', _Injector.reboot),
        _Case('the host says goodbye in the middle of the race', _Injector.say_goodbye,
              _Injector.hang),
        _Case("the host is cut off from all but the tenants' network", _nothing,
              lambda injector, host: injector.cut_off(host)),
        _Case('the host had no sentinel', _nothing, _Injector.die_unseen),
        # When Nova has ended the migration, the server may be evacuated without another race.
        _Case('the server leaves the host by a live migration', _nothing, _Injector.die_drained,
              (recoveries.RECOVERED, recoveries.EVACUATED)),
        _Case(f"Nova's scheduler is away for {_AWAY_S:g} s", _Injector.schedule_again,
              _Injector.die_unscheduled),
        _Case('what a controller runs dies in the same moment', _Injector.repair_controller,
              _Injector.die_beside_controller)]


def peace(stage: stages.Stage) -> dict[str, float]:
    """Let faults happen beside a server that lives.

    :returns: for each fault, how many recoveries were begun, and the longest time for which the
        server did not answer pings (s)
    """
    measured: dict[str, float] = {}
    for key, what, fault in (
            ('broker_outage', f'the broker is gone for {_OUTAGE:g} s', _without_broker),
            ('database_stall', f'the database stands still for {_DATABASE_S[-1]:g} s',
             _without_database),
            ('ceph_stall', f'Ceph stands still for {_STALL_S:g} s', _without_ceph)):
        with stage.small() as (_, pinger):
            before = set(stage.engine.ids())
            time.sleep(_BEFORE)
            with stage.screen.busy(what):
                fault(stage.cloud)
            with stage.screen.busy('everything finds its way back'):
                stage.cloud.wait_ready()
                stage.trusted()
                time.sleep(_AFTER)
            outages = [outage['more']['ended'] - outage['more']['began']
                       for outage in pinger.events('outage')]
            pinger.stop()
            measured |= {f'faults.{key}_backups': float(len(set(stage.engine.ids()) - before)),
                         f'faults.{key}_hidden_s': max(outages, default=0.0)}
    return measured


def _without_broker(cloud: openstack_cloud.Cloud) -> None:
    cloud.stop_daemon(services.BROKER)
    time.sleep(_OUTAGE)
    cloud.start_daemon(services.BROKER)


def _without_database(cloud: openstack_cloud.Cloud, seconds: float = _DATABASE_S[-1]) -> None:
    pid = cloud.pid(services.DATABASE)
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)


def _without_ceph(cloud: openstack_cloud.Cloud) -> None:
    names = [f'osd.{number}' for number in range(cloud.ceph.settings.osds)]
    try:
        for name in names:
            cloud.ceph.signal_daemon(name, signal.SIGSTOP)
        time.sleep(_STALL_S)
    finally:
        for name in names:
            cloud.ceph.signal_daemon(name, signal.SIGCONT)


@contextlib.contextmanager
def _server(stage: stages.Stage) -> Iterator[_Injector]:
    """Boot a server that writes now and then."""
    made: list[str] = []
    try:
        made.append(stage.drill.boot_later('faults', stages.HOME,
                                           metadata=drills.READY['g1']))
        server = stage.drill.active(made[0])
        stage.answers(server)
        stage.get(server, f'/cgi-bin/heartbeat?{_HEARTBEAT}')
        yield _Injector(stage, server)
    finally:
        for host in stage.cloud.hosts:
            host.boot()
        stage.cloud.wait_ready()
        for server_id in made:
            stage.drill.delete(server_id)


def _steps(stage: stages.Stage, server: drills.Server) -> list[str]:
    """Return the steps that each recovery has in which nothing fails, in order."""
    recovery = stage.recovery(server)
    assert recovery is not None
    return [name for name in dict.fromkeys(step.name for step in recovery.steps)
            if name not in _SOMETIMES]
