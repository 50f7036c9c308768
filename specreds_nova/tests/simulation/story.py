# SPDX-License-Identifier: Apache-2.0
"""A story: the cloud that it begins with, its events, and the checks of its end."""

from collections.abc import Callable, Mapping
import dataclasses
import pathlib
from typing import Any
import uuid

import yaml  # type: ignore[import-untyped]

from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import worker as workers
from specreds_nova.engine.suspicion import evidence
from specreds_nova.tests.simulation import engines
from testing.simulation import clients
from testing.simulation import cloud as clouds
from testing.simulation import hub as hubs
from testing.simulation import invariants
from testing.simulation import parts
from testing.simulation import settings
from testing.simulation import store as stores

_PLACE = pathlib.Path(__file__).parent / 'stories'
# Seconds after the return of a host in which an engine may still decide against the host.
_GRACE = 2.0
# Steps of a recovery beyond which it makes no progress; the longest recoveries take about 60.
_MOST_STEPS = 300
# Turns of actors between two looks for such recoveries.
_LOOK = 1000
# The end of the names of events that happen to the host that a server runs on.
_UNDER = '_under'


def names() -> list[str]:
    """Return the names of all stories."""
    return sorted(path.stem for path in _PLACE.glob('*.yaml'))


def load(name: str) -> dict[str, Any]:
    """Return the script of a story."""
    script: dict[str, Any] = yaml.safe_load((_PLACE / f'{name}.yaml').read_text())
    return script


@dataclasses.dataclass
class Ending:
    """The end of a story.

    :ivar calls: names of the calls of the first engine
    :ivar outcomes: outcomes, or states, of the recoveries of each server
    :ivar wrong: what differs from what the story expects
    :ivar history: all recoveries, in the order of creation
    """

    calls: list[str]
    outcomes: dict[str, list[str]]
    wrong: list[str]
    history: list[model.Recovery]


class Story:
    """One performance of a story.

    :param script: the content of its file
    :param faults: faults of the first engine
    :param attempt: function with which the engines take the steps of a recovery
    """

    def __init__(self, script: Mapping[str, Any], seed: int, faults: clients.Faults | None = None,
                 attempt: Callable[[runs.Run], object] = workers.attempt) -> None:
        self._script = script
        self._attempt = attempt
        self._hub = hubs.Hub(seed)
        self._cloud = clouds.Cloud(self._hub)
        self._cloud.second_opinion = script.get('second_opinion', False)
        self._cloud.copying = script.get('copying', 0.0)
        self._store = stores.Store(self._hub.now)
        self._store.set_mode(stores.ACTING)
        self._leases: dict[str, float] = {}
        self._settings = settings.options(**script.get('options', {}))
        self._engines: dict[str, engines.Engine] = {}
        self._decided_early: list[str] = []
        self._events_played = self._turns = 0
        for name, values in script['hosts'].items():
            self._cloud.add_host(name, **(values or {}))
        for name, values in script['servers'].items():
            self._cloud.add_server(name, **values)
        for number in range(script.get('engines', 2)):
            self._start(f'e{number + 1}', faults if number == 0 and faults else clients.Faults(
                unanswered=script.get('unanswered', 0.0)))
        self._after_promotion()
        self._hub.strict.add('story')
        self._hub.spawn('story', self._play)

    def run(self) -> Ending:
        """Play the story to its end."""
        self._hub.run(self._script.get('until', 900.0), self._is_quiet)
        wrong = [f'{type(failure).__name__}: {failure}' for failure in self._hub.failures]
        wrong += self._decided_early + self._leftovers() + self._unexpected()
        ending = Ending(self._engines['e1'].line.names, self._outcomes(), wrong,
                        list(self._store.history.values()))
        self._hub.close()
        return ending

    # Events

    def _play(self) -> None:
        jitter = self._script.get('jitter', 0.0)
        for event in self._script['events']:
            at = event['at'] + self._hub.random.uniform(0.0, event.get('jitter', jitter))
            self._hub.sleep(max(0.0, 1000.0 + at - self._hub.now()))
            [(name, target)] = [(key, value) for key, value in event.items()
                                if key not in ('at', 'jitter')]
            self._play_event(name, target)
            self._events_played += 1

    def _after_promotion(self) -> None:
        """Have the events `promoted` happen to a server between its decision and adoption."""
        connect = self._cloud.connect

        def promoted(backup: parts.Backup) -> None:
            connect(backup)
            for name in self._script.get('promoted', ()):
                self._play_event(name, backup.server)
        self._cloud.connect = promoted  # type: ignore[method-assign]

    def _play_event(self, name: str, target: str) -> None:
        events: dict[str, Callable[[str], Any]] = {
            'kill': self._cloud.kill_host, 'boot': self._cloud.boot_host,
            'cut': self._cloud.cut_host, 'heal': self._cloud.heal_host,
            'isolate': self._cloud.isolate, 'lose_storage': self._cloud.lose_storage,
            'stall': self._cloud.stall_host, 'resume': self._cloud.resume_host,
            'kill_engine': self._hub.kill, 'freeze_engine': self._hub.freeze,
            'thaw_engine': self._hub.thaw, 'start_engine': lambda name: self._start(
                name, clients.Faults()),
            'away': self._cloud.unreachable.add, 'there': self._cloud.unreachable.discard,
            'abort': self._abort, 'drill': self._drill,
            'suspect': lambda name: self._say(name, 'suspect'),
            'clear': lambda name: self._say(name, 'clear'), 'delete': self._delete,
            'request_deletion': self._cloud.delete, 'reboot': self._reboot,
            'stopped': self._stopped, 'crash': self._cloud.crash, 'stop': self._cloud.stop,
            'attach': self._cloud.attach, 'detach': self._cloud.detach,
            'back_up': self._cloud.back_up, 'end_jobs': self._cloud.end_jobs,
            'plug': self._cloud.plug, 'unplug': self._cloud.unplug,
            'detach_port': self._cloud.detach_port, 'confirm': self._cloud.confirm,
            'revert': self._cloud.revert, 'unprotect': self._cloud.unprotect,
            'resize': self._cloud.resize, 'give_up_move': self._cloud.give_up_move}
        if name.endswith(_UNDER):
            server = self._cloud.servers[target]
            name = name.removesuffix(_UNDER)
            target = server.host if server.primary is None else server.primary.host
        events[name](target)

    def _start(self, name: str, faults: clients.Faults) -> None:
        self._engines[name] = engines.Engine(
            name, self._hub, self._cloud, self._store, self._leases, self._settings, faults,
            self._decision_check, self._attempt)

    def _abort(self, server: str) -> None:
        for recovery in self._store.active():
            if recovery.server == server:
                self._store.request_abort(recovery.id, 'user u1 wants it to end')

    def _drill(self, server: str) -> None:
        """Request a drill, as the API does."""
        now, host = self._hub.now(), self._cloud.servers[server].host
        self._store.create([model.Recovery(
            id=str(uuid.UUID(int=self._hub.random.getrandbits(128))), server=server,
            server_name=server, project='p', host=host, suspected=now, created=now,
            why=(evidence.of(evidence.DRILL, 'u1', now).told(),))])

    def _say(self, host: str, word: str) -> None:
        self._store.change_host(self._store.host(host), word=word, word_reason='(user u1)')

    def _delete(self, server: str) -> None:
        del self._cloud.servers[server]

    def _reboot(self, server: str) -> None:
        self._cloud.reboot(self._cloud.servers[server])

    def _stopped(self, server: str) -> None:
        """Let Nova mark a server as stopped before it learns that the host is down."""
        self._cloud.servers[server].status = 'SHUTOFF'

    def _decision_check(self, engine: engines.Engine) -> Callable[[str], None]:
        """Return a function that records decisions against hosts that have returned."""
        def check(superposition: str) -> None:
            record = self._cloud.superpositions.get(superposition)
            if record is None or record.state != 'superposed':
                return
            recovery = self._store.history[record.reason]
            gone = any(step.detail.get('outcome') == 'gone' for step in recovery.steps)
            host = self._cloud.hosts[recovery.host]
            runs = engine.suspects.running(recovery.host, recovery.server)
            if runs and engine.suspects.is_well(recovery.host) and not gone and (
                    self._hub.now() - host.since > _GRACE):
                self._decided_early.append(
                    f'{recovery.server} was decided against though {host.name} is back')
        return check

    # Checks

    def _restless(self) -> list[AssertionError]:
        """Return what to say of recoveries that make no progress, which may end after hours."""
        return [AssertionError(f'recovery {recovery.id} of {recovery.server} makes no progress: '
                               f'{len(recovery.steps)} steps in '
                               f'{self._hub.now() - recovery.created:.0f} s, the last ones '
                               f'{[step.name for step in recovery.steps[-4:]]}')
                for recovery in self._store.history.values()
                if len(recovery.steps) > _MOST_STEPS]

    def _is_quiet(self) -> bool:
        self._turns += 1
        if self._turns % _LOOK == 0:
            self._hub.failures += self._restless()
        if self._events_played < len(self._script['events']) or self._hub.failures:
            return bool(self._hub.failures)
        if self._hub.now() < 1000.0 + self._script.get('least', 60.0):
            return False
        return not self._store.active() and not any(
            server.task for server in self._cloud.servers.values())

    def _outcomes(self) -> dict[str, list[str]]:
        outcomes: dict[str, list[str]] = {}
        for recovery in self._store.history.values():
            outcomes.setdefault(recovery.server, []).append(recovery.outcome or recovery.state)
        return outcomes

    def _leftovers(self) -> list[str]:
        wrong = [f'recovery {recovery.id} of {recovery.server} has not ended: {recovery.state}, '
                 f'{[step.name for step in recovery.steps][-4:]}'
                 for recovery in self._store.active()]
        wrong += [f'{record.id} is left {record.state}'
                  for record in self._cloud.superpositions.values()]
        wrong += [f'a backup of {backup.server} is left {backup.phase} on {host.name}'
                  for host in self._cloud.hosts.values() if host.reached
                  for backup in host.backups.values()
                  if backup.runs and backup.phase in ('starting', 'running', 'hardened')
                  and backup.superposition in self._cloud.superpositions]
        return wrong + invariants.without_remedy(self._store.history.values())

    def _unexpected(self) -> list[str]:
        wrong: list[str] = []
        outcomes = self._outcomes()
        for name, expected in self._script['expect'].items():
            server = self._cloud.servers.get(name)
            last = (outcomes.get(name) or ['none'])[-1]
            if 'outcome' in expected and last not in _listed(expected['outcome']):
                wrong.append(f'{name} ended {outcomes.get(name)}, not {expected["outcome"]}')
            if server is None:
                continue
            if expected.get('gone'):
                wrong.append(f'{name} is not deleted')
            seen = self._cloud.seen(server)
            if 'where' in expected and seen not in [[host] for host in _listed(expected['where'])]:
                wrong.append(f'{name} is seen on {seen}, not on {expected["where"]}')
            if 'where' in expected and server.host not in _listed(expected['where']):
                wrong.append(f'{name} is known on {server.host}, not on {expected["where"]}')
            if expected.get('stopped') and (seen or server.status != 'SHUTOFF'
                                            or not self._cloud.hosts[server.host].alive):
                wrong.append(f'{name} is {server.status}, known on {server.host} and seen on '
                             f'{seen}: it is not stopped on a host that lives')
            if 'lives' in expected and server.lives > expected['lives']:
                wrong.append(f'{name} has had {server.lives} lives')
            if len(server.volumes()) != expected.get('volumes', len(server.volumes())):
                wrong.append(f'{name} has the volumes {server.volumes()}')
            if server.failed:
                wrong.append(f'{name}: {server.failed}')
        for name, state in self._script.get('trusted', {}).items():
            if (self._store.host(name).state == model.TRUSTED) != state:
                wrong.append(f'host {name} is {self._store.host(name).state}')
        return wrong


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
