# SPDX-License-Identifier: Apache-2.0
"""The engines' database in memory: :class:`specreds_nova.engine.db.store.Store`, but faster."""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
from typing import Any

from specreds_nova.engine import exception
from specreds_nova.engine import model

_BEFORE_COMMIT = (model.QUEUED, model.RACING)


class Store:
    """What all engines share.

    :ivar history: every recovery that there was, in the order in which they were made
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._hosts: dict[str, model.Host] = {}
        self.history: dict[str, model.Recovery] = {}
        self._learned: dict[str, float] = {}

    def host(self, name: str) -> model.Host:
        """Give a host."""
        return self._hosts.get(name, model.Host(name))

    def hosts(self) -> list[model.Host]:
        """Give all hosts."""
        return [self._hosts[name] for name in sorted(self._hosts)]

    def change_host(self, host: model.Host, **values: Any) -> model.Host | None:
        """Change a host that is as it was read."""
        if self.host(host.name).generation != host.generation:
            return None
        if values.get('state', host.state) != host.state:
            values.setdefault('since', self._now())
        changed = dataclasses.replace(self.host(host.name), generation=host.generation + 1,
                                      **values)
        self._hosts[host.name] = changed
        return changed

    def create(self, wanted: Sequence[model.Recovery]) -> set[str]:
        """Write new recoveries down."""
        return {recovery.id for recovery in wanted if self._created(recovery)}

    def _created(self, recovery: model.Recovery) -> bool:
        if any(one.server == recovery.server and one.state != model.ENDED
               for one in self.history.values()):
            return False
        self.history[recovery.id] = dataclasses.replace(
            recovery, created=recovery.created or self._now(), updated=self._now())
        return True

    def get(self, recovery_id: str) -> model.Recovery | None:
        """Give a recovery."""
        return self.history.get(recovery_id)

    def active(self, host: str | None = None) -> list[model.Recovery]:
        """Give those that have not ended."""
        return [one for one in self.history.values()
                if one.state != model.ENDED and host in (None, one.host)]

    def recoveries(self, filters: Mapping[str, str], limit: int | None = None
                   ) -> list[model.Recovery]:
        """Give those that meet all filters, the newest first."""
        found = [one for one in reversed(self.history.values())
                 if all(getattr(one, name) == value for name, value in filters.items())]
        return found[:limit]

    def take_over(self, recovery_id: str, engine: str) -> model.Recovery:
        """Make an engine the one that works on a recovery."""
        if recovery_id not in self.history:
            raise exception.NotFound(recovery_id)
        found = self.history[recovery_id]
        if found.state == model.ENDED:
            return found
        return self._put(found, epoch=found.epoch + 1, engine=engine)

    def change(self, recovery: model.Recovery, **values: Any) -> model.Recovery:
        """Change a recovery."""
        found = self._mine(recovery)
        back = (values.get('state') in _BEFORE_COMMIT
                or values.get('outcome') in (model.PRIMARY, model.ABORTED))
        if back and found.state not in _BEFORE_COMMIT:
            raise exception.Invalid(f'{found.state} cannot become {values}')
        if (values.get('state') == model.ENDED) != (values.get('outcome') in model.OUTCOMES):
            raise exception.Invalid(str(values))
        if values.get('state') == model.ENDED:
            values['ended'] = self._now()
        return self._put(found, **values)

    def begin_step(self, recovery: model.Recovery, name: str) -> int:
        """Note that a step begins."""
        found = self._mine(recovery)
        attempt = 1 + sum(step.name == name for step in found.steps)
        step = model.Step(name, attempt, found.engine or '', self._now())
        self._put(found, steps=(*found.steps, step))
        return attempt

    def end_step(self, recovery: model.Recovery, name: str, attempt: int,
                 detail: Mapping[str, Any]) -> None:
        """Note that a step has ended."""
        found = self.history[recovery.id]
        if found.epoch != recovery.epoch:
            raise exception.Superseded(recovery.id)
        self._put(found, steps=tuple(
            dataclasses.replace(step, ended=self._now(), detail=dict(detail))
            if (step.name, step.attempt, step.ended) == (name, attempt, None) else step
            for step in found.steps))

    def request_abort(self, recovery_id: str) -> bool:
        """Note that an operator wants a recovery to end."""
        found = self.history.get(recovery_id)
        if found is None or found.state not in _BEFORE_COMMIT:
            return False
        self._put(found, abort=True)
        return True

    def expected(self, servers: Iterable[str]) -> dict[str, float]:
        """Give what was learned."""
        return {one: self._learned[one] for one in servers if one in self._learned}

    def learn(self, server_id: str, seconds: float) -> None:
        """Remember."""
        self._learned[server_id] = seconds

    def prune(self, before: float) -> int:
        """Forget nothing."""
        del before
        return 0

    def _mine(self, recovery: model.Recovery) -> model.Recovery:
        found = self.history[recovery.id]
        if found.epoch != recovery.epoch:
            raise exception.Superseded(recovery.id)
        if found.state == model.ENDED:
            raise exception.Ended(recovery.id)
        return found

    def _put(self, found: model.Recovery, **values: Any) -> model.Recovery:
        changed = dataclasses.replace(found, updated=self._now(), **values)
        self.history[found.id] = changed
        return changed
