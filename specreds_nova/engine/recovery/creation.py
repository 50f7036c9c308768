# SPDX-License-Identifier: Apache-2.0
"""The creation of recoveries, and the begin of the work on them."""

from collections.abc import Mapping, Sequence
import dataclasses
from typing import Any
import uuid

from oslo_log import log as logging

from specreds_nova.engine import model
from specreds_nova.engine.placing import conductor as conductors
from specreds_nova.engine.placing import order
from specreds_nova.engine.recovery import context as contexts

LOG = logging.getLogger(__name__)

# Recoveries created in one transaction.
_AT_ONCE = 200
# The epoch of a recovery that its creator works on at once.
_FIRST = 1

# A recovery that is to be created, and its server as it was just read.
Wanted = tuple[model.Recovery, model.Server]


class Creation:
    """Creates recoveries. Every method may be called by any thread, and repeated.

    :param engine: name of this engine
    """

    def __init__(self, context: contexts.Context, work: conductors.Conductor, engine: str) -> None:
        self._context = context
        self._work = work
        self._engine = engine

    def new(self, host: model.Host, server: model.Server,
            expected: float | None, now: float) -> model.Recovery:
        """Return a new recovery, which is not in the database yet."""
        return model.Recovery(
            id=str(uuid.uuid4()), server=server.id, server_name=server.name,
            project=server.project, host=host.name, suspected=host.since, why=host.why,
            priority=order.priority(server, self._context.settings.tenant_priority_max),
            expected=expected, created=now)

    def begin_all(self, wanted: Sequence[Wanted]) -> int:
        """Create recoveries, and begin them in order; return how many."""
        servers = {recovery.id: server for recovery, server in wanted}
        ordered = order.ordered(
            [recovery for recovery, _ in wanted], self._context.settings.tenant_priority_max,
            self._context.clock.wall())
        return sum(self.begin(ordered[place:place + _AT_ONCE], servers)
                   for place in range(0, len(ordered), _AT_ONCE))

    def begin(self, ordered: Sequence[model.Recovery],
              servers: Mapping[str, model.Server]) -> int:
        """Create recoveries and start the work on them in this order; return how many.

        They are created at once: one by one, the last ones would wait for the work of the first
        ones.

        :param servers: by recovery, its server if it was just read
        """
        wanted: list[model.Recovery] = []
        created: set[str] = set()
        try:
            for recovery in ordered:
                wanted.append(self._reserved(recovery))
            created = self._context.store.create(wanted)
        finally:
            for recovery in wanted:
                if recovery.epoch and recovery.id not in created:
                    self._work.release(recovery.id)
        begun = [recovery for recovery in wanted if recovery.id in created]
        for recovery in begun:
            LOG.info('recovery %s of server %s on %s begins', recovery.id, recovery.server,
                     recovery.host)
            try:
                self._work.begin(recovery, servers.get(recovery.id))
            except Exception:
                # The conductor takes it later; until then, it must not hold up the other ones.
                LOG.exception('recovery %s cannot begin: it is taken later', recovery.id)
                if recovery.epoch:
                    self._work.release(recovery.id)
        for recovery in begun:
            self._context.observer.recovery('start', recovery)
        return len(begun)

    def observe(self, host: model.Host, wanted: Sequence[model.Recovery], *, crashed: bool = False,
                **values: Any) -> model.Host | None:
        """Record recoveries that do not begin, because the mode of their host is to observe.

        :param host: as it was read before the former recoveries of the servers
        :param crashed: the servers have crashed; otherwise the host is silent, and may return
        :param values: what changes of the host
        :returns: the host; None if another engine has changed it, and may have recorded them
        """
        ended = [dataclasses.replace(recovery, state=model.ENDED, outcome=model.OBSERVED,
                                     ended=recovery.created if crashed else None)
                 for recovery in wanted]
        changed = self._context.store.observe(host, ended, **values)
        for recovery in ended if changed is not None else ():
            LOG.info('recovery %s of server %s on %s is only observed', recovery.id,
                     recovery.server, recovery.host)
            self._context.observer.recovery('end', recovery)
        return changed

    def _reserved(self, recovery: model.Recovery) -> model.Recovery:
        """Return a new recovery, assigned to this engine if it has a slot for it."""
        if not self._work.reserve(recovery):
            return recovery
        return dataclasses.replace(recovery, epoch=_FIRST, engine=self._engine)
