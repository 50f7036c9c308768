# SPDX-License-Identifier: Apache-2.0
"""The engines' database in memory: :class:`specreds_nova.engine.store.store.Store`, but faster.

The tests of that class run on this one as well (``test_simulated.py``), so that both do the same.
"""

import collections
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
import dataclasses
from typing import Any

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.store import hosts
from specreds_nova.engine.store import recoveries
from specreds_nova.engine.store import store as stores

_BEFORE_COMMIT = (model.QUEUED, model.RACING)

# What the operator of a cloud sets after its installation.
ACTING = model.Mode(model.CLOUD, '', model.ACT, 'a simulation', '', 0.0)


class Store:
    """The database that all engines share.

    :param trusted: receives the former record of each host that is trusted again
    :param began: receives each new recovery
    :ivar history: every recovery by id, in the order of creation
    """

    def __init__(self, now: Callable[[], float],
                 trusted: Callable[[model.Host], object] = lambda host: None,
                 began: Callable[[model.Recovery], object] = lambda recovery: None) -> None:
        self._now = now
        self._trusted = trusted
        self._began = began
        self._hosts: dict[str, model.Host] = {}
        self.history: dict[str, model.Recovery] = {}
        self._learned: dict[str, float] = {}
        self._votes: dict[str, model.Vote] = {}
        self._crashes: dict[tuple[str, str], model.Crash] = {}
        # By scope, name, and whether the mode lasts.
        self._modes: dict[tuple[str, str, bool], model.Mode] = {}
        # By server and host: when the latest crash was heard that was recorded.
        self.crashed: dict[tuple[str, str], float] = {}

    def hosts_named(self, names: Sequence[str]) -> list[model.Host]:
        """Return hosts."""
        return [self.host(name) for name in names]

    def host(self, name: str) -> model.Host:
        """Return a host."""
        return self._hosts.get(name, model.Host(name))

    def hosts(self) -> list[model.Host]:
        """Return all hosts."""
        return [self._hosts[name] for name in sorted(self._hosts)]

    def notable_hosts(self) -> list[model.Host]:
        """Return the notable hosts."""
        return [host for host in self.hosts() if host.notable]

    def host_count(self) -> int:
        """Return the number of hosts."""
        return len(self._hosts)

    def record(self, kernels: Mapping[str, str]) -> None:
        """Record hosts, and boots of hosts that have none."""
        for name, kernel in kernels.items():
            if name not in self._hosts or (kernel and self.host(name).kernel is None):
                self.change_host(self.host(name), kernel=kernel or None)

    def booted(self, name: str, kernel: str) -> None:
        """Record the boot of a host."""
        if self.host(name).kernel != kernel:
            self.change_host(self.host(name), kernel=kernel)

    def report(self, name: str, what: str, state: str) -> None:
        """Record a state of a host: of its ``sentinel``, or its ``voices``."""
        if getattr(self.host(name), what) != state:
            self.change_host(self.host(name), **{what: state})

    def silent(self) -> frozenset[str]:
        """Return the hosts that are recorded as silent."""
        return frozenset(host.name for host in self.hosts() if host.silent_since is not None)

    def silence(self, since: Mapping[str, float | None]) -> None:
        """Record since when hosts are silent."""
        for name, at in since.items():
            if name in self._hosts:
                self._hosts[name] = dataclasses.replace(self._hosts[name], silent_since=at)

    def showing(self) -> dict[str, int]:
        """Return the generation of each host that may hide no server."""
        return {host.name: host.generation for host in self.hosts() if host.shows}

    def show(self, names: Sequence[str]) -> None:
        """Record for hosts, if they are trusted, that they may hide no server."""
        for name in names:
            host = self._hosts.get(name)
            if host is not None and host.state == model.TRUSTED:
                self.change_host(host, shows=True)

    def hide(self, name: str, generation: int) -> bool:
        """Record that a host hides its servers again."""
        host = self.host(name)
        return host.generation == generation and (
            self.change_host(host, shows=False) is not None)

    def sentinels(self) -> dict[str | None, int]:
        """Return the number of hosts by the state of their sentinels."""
        return dict(collections.Counter(host.sentinel for host in self.hosts()))

    def voices(self) -> dict[str | None, int]:
        """Return the number of hosts by the voices that are heard."""
        silent = self.silent()
        return collections.Counter(host.voices for host in self.hosts()
                                   if host.name not in silent) | {model.SILENT: len(silent)}

    def change_host(self, host: model.Host, **values: Any) -> model.Host | None:
        """Change a host, unless it has changed since it was read."""
        _check(values, hosts._CHANGEABLE)
        if self.host(host.name).generation != host.generation:
            return None
        if values.get('state', host.state) != host.state:
            values.setdefault('since', self._now())
        changed = dataclasses.replace(self.host(host.name), generation=host.generation + 1,
                                      **values)
        self._hosts[host.name] = changed
        if changed.state == model.TRUSTED != host.state:
            self._trusted(host)
        return changed

    def leave(self, name: str, goodbye: str | None, at: float | None) -> model.Host:
        """Record the goodbye of a host, or that the host is heard again."""
        host = self.host(name)
        if host.goodbye == goodbye:
            return host
        return self.change_host(host, goodbye=goodbye, goodbye_at=at) or host

    def modes(self) -> list[model.Mode]:
        """Return all modes."""
        return [self._modes[key] for key in sorted(self._modes)]

    def set_mode(self, mode: model.Mode) -> None:
        """Record a mode."""
        lasts = mode.until is None
        self._modes[mode.scope, mode.name, lasts] = mode
        if lasts:
            self._modes.pop((mode.scope, mode.name, False), None)

    def unset_mode(self, scope: str, name: str) -> bool:
        """Remove the modes of a scope and name; return whether there was one."""
        removed = [self._modes.pop((scope, name, lasts), None) for lasts in (False, True)]
        return any(removed)

    def vote(self, vote: model.Vote) -> None:
        """Replace the vote of an engine, and raise the counter of its lease."""
        known = self._votes.get(vote.engine)
        self._votes[vote.engine] = dataclasses.replace(
            vote, counter=max(vote.counter, 1 if known is None else known.counter + 1))

    def votes(self) -> list[model.Vote]:
        """Return the votes of all engines, by name."""
        return [self._votes[engine] for engine in sorted(self._votes)]

    def withdraw(self, vote: model.Vote) -> None:
        """Remove the row of an engine, unless the engine has voted since."""
        known = self._votes.get(vote.engine)
        if known is not None and known.counter == vote.counter:
            del self._votes[vote.engine]

    def crashes(self) -> list[model.Crash]:
        """Return the crashes that have to wait, the oldest first."""
        return sorted(self._crashes.values(), key=lambda crash: (crash.heard, crash.server))

    def keep_crash(self, crash: model.Crash) -> None:
        """Record a crash that has to wait."""
        key = crash.server, crash.host
        known = self._crashes.get(key)
        if known is None or known.heard < crash.heard:
            self._crashes[key] = crash
        self.crashed[key] = max(crash.heard, self.crashed.get(key, 0.0))

    def drop_crash(self, crash: model.Crash) -> None:
        """Remove a crash, unless the server has crashed again on the host."""
        known = self._crashes.get((crash.server, crash.host))
        if known is not None and known.heard <= crash.heard:
            del self._crashes[crash.server, crash.host]

    def forget(self, name: str) -> bool:
        """Remove a host unless it is fenced or being recovered; return whether it is gone."""
        if self.active(name) or self.host(name).state == model.FENCED:
            return False
        self._hosts.pop(name, None)
        return True

    def create(self, wanted: Sequence[model.Recovery]) -> set[str]:
        """Create recoveries, and return the ids of those created."""
        if any(recovery.state == model.ENDED and recovery.outcome != model.OBSERVED
               for recovery in wanted):
            raise exception.Invalid('a recovery cannot be created as ended')
        return {recovery.id for recovery in wanted if self._created(recovery)}

    def _created(self, recovery: model.Recovery) -> bool:
        if recovery.id in self.history:
            return self.history[recovery.id].state != model.ENDED
        if recovery.state == model.ENDED:
            self._put(recovery, created=recovery.created or self._now())
            return True
        if any(other.server == recovery.server and other.state != model.ENDED
               for other in self.history.values()):
            return False
        self._put(recovery, created=recovery.created or self._now())
        self._began(recovery)
        return True

    def observe(self, host: model.Host, wanted: Sequence[model.Recovery], **values: Any
                ) -> model.Host | None:
        """Record recoveries that are only observed, unless their host has changed."""
        changed = self.change_host(host, **values)
        if changed is not None:
            self.create(wanted)
        return changed

    def returned(self, host: model.Host, **values: Any) -> model.Host | None:
        """Change a host that is back, and end its recoveries that were only observed."""
        changed = self.change_host(host, **values)
        for recovery in list(self.history.values()) if changed is not None else ():
            if (recovery.host, recovery.outcome, recovery.ended) == (
                    host.name, model.OBSERVED, None):
                self._put(recovery, ended=self._now())
        return changed

    def note_room(self, recovery_id: str, destination: str | None, error: str | None) -> None:
        """Record where the backup of an observed recovery would have been, or why nowhere."""
        recovery = self.history[recovery_id]
        if recovery.outcome == model.OBSERVED:
            self._put(recovery, destination=destination, error=error)

    def get(self, recovery_id: str) -> model.Recovery | None:
        """Return a recovery."""
        return self.history.get(recovery_id)

    def active(self, host: str | None = None, servers: Collection[str] | None = None
               ) -> list[model.Recovery]:
        """Return the recoveries that have not ended."""
        return [_shown(recovery) for recovery in self.history.values()
                if recovery.state != model.ENDED and host in (None, recovery.host)
                and (servers is None or recovery.server in servers)]

    def backups(self, servers: Collection[str] | None = None) -> list[model.BackupPlace]:
        """Return the recoveries that have a backup."""
        return [model.BackupPlace(recovery.id, recovery.server, recovery.host, recovery.state,
                                  recovery.destination)
                for recovery in self.history.values()
                if recovery.state in model.WITH_BACKUP
                and (servers is None or recovery.server in servers)]

    def active_states(self) -> dict[str, int]:
        """Return the number of recoveries that have not ended, by state."""
        return dict(collections.Counter(recovery.state for recovery in self.active()))

    def recoveries(self, filters: Mapping[str, str], limit: int | None = None
                   ) -> list[model.Recovery]:
        """Return the recoveries that meet all filters, newest first."""
        matches = [_shown(recovery) for recovery in reversed(self.history.values())
                   if all(getattr(recovery, name) == value for name, value in filters.items())]
        return matches[:limit]

    def free(self, ended: Collection[str]) -> list[model.Recovery]:
        """Return the active recoveries on which no living engine works."""
        living = self._votes.keys() - ended
        return [recovery for recovery in self.active() if recovery.engine not in living]

    def take_over(self, recovery: model.Recovery, engine: str) -> model.Recovery:
        """Claim a recovery for an engine."""
        if recovery.id not in self.history:
            raise exception.Ended(recovery.id)
        current = self._owned(recovery)
        self._put(current, epoch=current.epoch + 1, engine=engine)
        return self.history[recovery.id]

    def change(self, recovery: model.Recovery, *, begun: Sequence[model.Step] = (),
               ended: Sequence[model.Step] = (), **values: Any) -> model.Recovery:
        """Change a recovery, and record steps of it."""
        if values or begun or not ended:
            self._change(recovery, values)
        elif _claim(self.history[recovery.id]) != _claim(recovery):
            raise exception.Superseded(recovery.id)
        current = self.history[recovery.id]
        ends = {(step.name, step.attempt): step for step in ended}
        known = [_ended(step, ends.get((step.name, step.attempt))) for step in current.steps]
        stored: list[model.Step] = []
        for step in begun:
            before = [other for other in known if other.name == step.name]
            if all((step.attempt, step.engine, step.began)
                   != (other.attempt, other.engine, other.began) for other in before):
                step = dataclasses.replace(step, attempt=1 + max(
                    (other.attempt for other in before), default=0))
                known.append(step)
            stored.append(step)
        if ended or begun:
            self._put(current, steps=tuple(known))
        return dataclasses.replace(self.history[recovery.id], steps=tuple(stored))

    def _change(self, recovery: model.Recovery, values: dict[str, Any]) -> model.Recovery:
        _check(values, recoveries._CHANGEABLE)
        if values.get('state', recovery.state) not in model.STATES:
            raise exception.Invalid(str(values))
        current = self.history[recovery.id]
        if _claim(current) == _claim(recovery) and current.state == model.ENDED == values.get(
                'state') and all(getattr(current, name) == values[name] for name in values):
            return _shown(current)
        current = self._owned(recovery)
        back = (values.get('state') in _BEFORE_COMMIT
                or values.get('outcome') in (model.PRIMARY, model.ABORTED))
        if back and current.state not in _BEFORE_COMMIT:
            raise exception.Invalid(f'{current.state} cannot become {values}')
        if (values.get('state') == model.ENDED) != (values.get('outcome') in model.OUTCOMES):
            raise exception.Invalid(str(values))
        if values.get('state') == model.ENDED:
            values['ended'] = self._now()
        return self._put(current, **values)

    def change_all(self, changes: Sequence[stores.Change]) -> list[model.Recovery | Exception]:
        """Change recoveries; return the result or the error of each."""
        return [_answer(self.change, change.recovery, begun=change.begun, ended=change.ended,
                        **change.values) for change in changes]

    def refresh_all(self, known: Sequence[model.Recovery]) -> list[model.Recovery | Exception]:
        """Return recoveries as `refresh` does; return the error of one that it refuses."""
        return [_answer(self.refresh, recovery) for recovery in known]

    def refresh(self, recovery: model.Recovery) -> model.Recovery:
        """Return a recovery with what others may have changed."""
        if self.history[recovery.id].state == model.ENDED:
            raise exception.Ended(recovery.id)
        return dataclasses.replace(recovery, abort=self._owned(recovery).abort)

    def revoked(self, engine: str) -> set[str]:
        """Return the recoveries that race, and are to be aborted or belong to other engines."""
        return {recovery.id for recovery in self.history.values()
                if recovery.state == model.RACING and (
                    recovery.abort or recovery.engine != engine)}

    def request_abort(self, recovery_id: str, why: str) -> bool:
        """Record that an operator wants a recovery to end."""
        current = self.history.get(recovery_id)
        if current is None or current.state not in _BEFORE_COMMIT:
            return False
        self._put(current, abort=current.abort or why)
        return True

    def expected(self, servers: Iterable[str]) -> dict[str, float]:
        """Return the seconds that past backups of servers took to be ready."""
        return {server: self._learned[server] for server in servers if server in self._learned}

    def learn(self, server_id: str, seconds: float) -> None:
        """Remember how long a backup of a server took to be ready."""
        self._learned[server_id] = seconds

    def prune(self, before: float) -> int:
        """Forget nothing."""
        del before
        return 0

    def _owned(self, recovery: model.Recovery) -> model.Recovery:
        current = self.history[recovery.id]
        if _claim(current) != _claim(recovery):
            raise exception.Superseded(recovery.id)
        if current.state == model.ENDED:
            raise exception.Ended(recovery.id)
        return current

    def _put(self, current: model.Recovery, **values: Any) -> model.Recovery:
        changed = dataclasses.replace(current, updated=self._now(), **values)
        self.history[current.id] = changed
        return _shown(changed)


def _claim(recovery: model.Recovery) -> tuple[int, str | None]:
    return recovery.epoch, recovery.engine


def _ended(step: model.Step, end: model.Step | None) -> model.Step:
    """Return a step with its end, unless it has ended before."""
    if end is None or step.ended is not None:
        return step
    return dataclasses.replace(step, ended=end.ended, detail=end.detail)


def _check(values: Mapping[str, Any], changeable: Collection[str]) -> None:
    unknown = values.keys() - changeable
    if unknown:
        raise exception.Invalid(f'there is no {", ".join(sorted(unknown))} to change')


def _shown(recovery: model.Recovery) -> model.Recovery:
    """Return a recovery as all queries but that for a single one do: without its steps."""
    return dataclasses.replace(recovery, steps=()) if recovery.steps else recovery


def _answer(call: Callable[..., model.Recovery], *arguments: Any, **more: Any
            ) -> model.Recovery | Exception:
    try:
        return call(*arguments, **more)
    except exception.EngineError as exc:
        return exc
