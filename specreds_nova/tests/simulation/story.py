# SPDX-License-Identifier: Apache-2.0
"""A story: what there is, what happens when, and what must be seen in the end."""

from collections.abc import Callable, Mapping
import dataclasses
import pathlib
from typing import Any

import yaml  # type: ignore[import-untyped]

from specreds_nova.engine import model
from specreds_nova.engine.recovery import flow
from specreds_nova.engine.recovery import run as runs
from specreds_nova.tests.simulation import cloud as clouds
from specreds_nova.tests.simulation import ends
from specreds_nova.tests.simulation import engines
from specreds_nova.tests.simulation import hub as hubs
from specreds_nova.tests.simulation import store as stores

_PLACE = pathlib.Path(__file__).parent / 'stories'
# Seconds that an engine may have been told that a host is back and decide against it.
_MERCY = 2.0


def names() -> list[str]:
    """Give the names of all stories."""
    return sorted(path.stem for path in _PLACE.glob('*.yaml'))


def load(name: str) -> dict[str, Any]:
    """Read a story."""
    told: dict[str, Any] = yaml.safe_load((_PLACE / f'{name}.yaml').read_text())
    return told


@dataclasses.dataclass
class Ending:
    """How a story ended.

    :ivar calls: of the first engine, by name
    """

    calls: list[str]
    outcomes: dict[str, list[str]]
    wrong: list[str]
    history: list[model.Recovery]


class Story:
    """Plays a story once.

    :param told: as it is in the file
    :param faults: of the first engine
    :param attempt: how the engines take the steps of a recovery
    """

    def __init__(self, told: Mapping[str, Any], seed: int, faults: ends.Faults | None = None,
                 attempt: Callable[[runs.Run], object] = flow.attempt) -> None:
        self._told = told
        self._attempt = attempt
        self._hub = hubs.Hub(seed)
        self._cloud = clouds.Cloud(self._hub)
        self._store = stores.Store(self._hub.now)
        self._board = engines.Board(self._hub)
        self._settings = engines.options(**told.get('options', {}))
        self._engines: dict[str, engines.Engine] = {}
        self._early: list[str] = []
        self._happened = 0
        for name, values in told['hosts'].items():
            self._cloud.add_host(name, **(values or {}))
        for name, values in told['servers'].items():
            self._cloud.add_server(name, **values)
        for number in range(told.get('engines', 2)):
            self._start(f'e{number + 1}', faults if number == 0 and faults else ends.Faults(
                unanswered=told.get('unanswered', 0.0)))
        self._hub.strict.add('story')
        self._hub.spawn('story', self._play)

    def run(self) -> Ending:
        """Play it."""
        self._hub.run(self._told.get('until', 900.0), self._quiet)
        wrong = [f'{type(failure).__name__}: {failure}' for failure in self._hub.failures]
        wrong += self._early + self._leftovers() + self._unexpected()
        ending = Ending(self._engines['e1'].line.names, self._outcomes(), wrong,
                        list(self._store.history.values()))
        self._hub.close()
        return ending

    # What happens

    def _play(self) -> None:
        jitter = self._told.get('jitter', 0.0)
        for event in self._told['events']:
            at = event['at'] + self._hub.random.uniform(0.0, event.get('jitter', jitter))
            self._hub.sleep(max(0.0, 1000.0 + at - self._hub.now()))
            [(what, whom)] = [(key, value) for key, value in event.items()
                              if key not in ('at', 'jitter')]
            self._happen(what, whom)
            self._happened += 1

    def _happen(self, what: str, whom: str) -> None:
        acts: dict[str, Callable[[str], Any]] = {
            'kill': self._cloud.kill_host, 'boot': self._cloud.boot_host,
            'cut': self._cloud.cut_host, 'heal': self._cloud.heal_host,
            'stall': self._cloud.stall_host, 'resume': self._cloud.resume_host,
            'kill_engine': self._hub.kill, 'freeze_engine': self._hub.freeze,
            'thaw_engine': self._hub.thaw, 'start_engine': lambda name: self._start(
                name, ends.Faults()),
            'away': self._cloud.unreachable.add, 'there': self._cloud.unreachable.discard,
            'abort': self._abort, 'suspect': lambda name: self._say(name, 'suspect'),
            'clear': lambda name: self._say(name, 'clear'), 'delete': self._delete,
            'stopped': self._stopped, 'crash': self._cloud.crash, 'stop': self._cloud.stop,
            'board': lambda how: setattr(self._board, 'away', how == 'away')}
        acts[what](whom)

    def _start(self, name: str, faults: ends.Faults) -> None:
        self._engines[name] = engines.Engine(
            name, self._hub, self._cloud, self._store, self._board, self._settings, faults,
            self._watch, self._attempt)

    def _abort(self, server: str) -> None:
        for one in self._store.active():
            if one.server == server:
                self._store.request_abort(one.id)

    def _say(self, host: str, word: str) -> None:
        self._store.change_host(self._store.host(host), word=word, word_reason='')

    def _delete(self, server: str) -> None:
        del self._cloud.servers[server]

    def _stopped(self, server: str) -> None:
        """Nova notices that the domain is gone, before it is told where it is."""
        self._cloud.servers[server].status = 'SHUTOFF'

    def _watch(self, engine: engines.Engine) -> Callable[[str], None]:
        """Have an eye on decisions against hosts that are back."""
        def check(superposition: str) -> None:
            found = self._cloud.superpositions.get(superposition)
            if found is None or found.state != 'superposed':
                return
            recovery = self._store.history[found.reason]
            gone = any(step.detail.get('outcome') == 'gone' for step in recovery.steps)
            host = self._cloud.hosts[recovery.host]
            runs = engine.suspects.running(recovery.host, recovery.server)
            if runs and engine.suspects.beats(recovery.host) and not gone and (
                    self._hub.now() - host.since > _MERCY):
                self._early.append(
                    f'{recovery.server} was decided against though {host.name} is back')
        return check

    # What is seen

    def _quiet(self) -> bool:
        if self._happened < len(self._told['events']) or self._hub.failures:
            return bool(self._hub.failures)
        if self._hub.now() < 1000.0 + self._told.get('least', 60.0):
            return False
        return not self._store.active() and not any(
            server.task for server in self._cloud.servers.values())

    def _outcomes(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for one in self._store.history.values():
            found.setdefault(one.server, []).append(one.outcome or one.state)
        return found

    def _leftovers(self) -> list[str]:
        wrong = [f'recovery {one.id} of {one.server} has not ended: {one.state}, '
                 f'{[step.name for step in one.steps][-4:]}' for one in self._store.active()]
        wrong += [f'{one.id} is left {one.state}' for one in self._cloud.superpositions.values()
                  if one.state in ('superposed', 'collapsing')]
        wrong += [f'a backup of {one.server} is left {one.phase} on {host.name}'
                  for host in self._cloud.hosts.values() if host.reached
                  for one in host.backups.values()
                  if one.runs and one.phase in ('starting', 'running', 'hardened')
                  and one.superposition in self._cloud.superpositions]
        return wrong

    def _unexpected(self) -> list[str]:
        wrong: list[str] = []
        outcomes = self._outcomes()
        for name, expected in self._told['expect'].items():
            server = self._cloud.servers.get(name)
            last = (outcomes.get(name) or ['none'])[-1]
            if 'outcome' in expected and last not in _listed(expected['outcome']):
                wrong.append(f'{name} ended {outcomes.get(name)}, not {expected["outcome"]}')
            if server is None:
                continue
            seen = self._cloud.seen(server)
            if 'where' in expected and seen not in [[one] for one in _listed(expected['where'])]:
                wrong.append(f'{name} is seen on {seen}, not on {expected["where"]}')
            if 'where' in expected and server.host not in _listed(expected['where']):
                wrong.append(f'{name} is known on {server.host}, not on {expected["where"]}')
            if 'lives' in expected and server.lives > expected['lives']:
                wrong.append(f'{name} was let out {server.lives} times')
            if server.failed:
                wrong.append(f'{name}: {server.failed}')
        for name, state in self._told.get('trusted', {}).items():
            if (self._store.host(name).state == model.TRUSTED) != state:
                wrong.append(f'host {name} is {self._store.host(name).state}')
        return wrong


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
