# SPDX-License-Identifier: Apache-2.0
"""The states of the sentinels of all hosts, in the database: for operators, gates and engines."""

from collections.abc import Callable, Iterable, Mapping

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.db import store as stores

LOG = logging.getLogger(__name__)

# Changes that one look records: thousands may be due after an upgrade.
_AT_ONCE = 100


class Sentinels:
    """Records what hosts report of their sentinels. For use by one thread.

    :param reported: returns the state of each sentinel that was reported to this engine
    """

    def __init__(self, reported: Callable[[], Mapping[str, str]], database: stores.Store) -> None:
        self._reported = reported
        self._database = database
        self._recorded: dict[str, str | None] = {}

    def know(self, hosts: Iterable[model.Host]) -> None:
        """Take what is recorded."""
        self._recorded |= {host.name: host.sentinel for host in hosts}

    def look(self) -> None:
        """Record what has changed."""
        changed = [(name, state) for name, state in self._reported().items()
                   if self._recorded.get(name) != state]
        for name, state in changed[:_AT_ONCE]:
            try:
                self._database.report_sentinel(name, state)
            except exception.EngineError as exc:
                LOG.warning('host %s: that its sentinel is %s is recorded later: %s', name, state,
                            exc)
                return
            self._recorded[name] = state
            if state == model.LIVE:
                LOG.info('host %s: its sentinel is live', name)
            else:
                LOG.warning('host %s: its sentinel is %s: servers there may neither end nor be '
                            'hidden when they are promoted elsewhere', name, state)
