# SPDX-License-Identifier: Apache-2.0
"""What all engines share, in a database: :class:`specreds_nova.engine.interfaces.Store`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import time
from typing import Any

from oslo_config import cfg
import sqlalchemy as sa

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.db import connection as db_connection
from specreds_nova.engine.db import durations
from specreds_nova.engine.db import hosts
from specreds_nova.engine.db import recoveries
from specreds_nova.engine.db import steps

_IN_ONE_QUERY = 500


def from_conf(conf: cfg.ConfigOpts) -> 'Store':
    """Give the store in the database of the configuration.

    :raises exception.Invalid: the configuration names none
    :raises exception.Unreachable: it does not answer
    """
    return Store(db_connection.connect(conf))


class Store:
    """The database. May be used by several threads.

    Besides the errors that its methods name they all raise ``exception.Unreachable`` when the
    database does not answer.

    :param engine: of SQLAlchemy, made by oslo.db
    :param now: the time, in seconds since the epoch
    """

    def __init__(self, engine: sa.Engine, now: Callable[[], float] = time.time) -> None:
        self._transactions = db_connection.Transactions(engine)
        self._now = now

    def host(self, name: str) -> model.Host:
        """Give a host; one that nobody has written down yet is trusted, of generation 0."""
        found = self._transactions.run(lambda connection: hosts.get(connection, name))
        return found or model.Host(name)

    def hosts(self) -> list[model.Host]:
        """Give all hosts that somebody has written down, by name."""
        return self._transactions.run(hosts.get_all)

    def change_host(self, host: model.Host, **values: Any) -> model.Host | None:
        """Change a host that is as it was read; None if another engine was faster.

        Another state is of now, unless ``since`` says otherwise.

        :raises exception.Invalid: there is no such value of a host
        """
        if values.get('state', host.state) != host.state:
            values.setdefault('since', self._now())
        return self._transactions.run(
            lambda connection: hosts.change(connection, host, dict(values)))

    def see(self, name: str) -> model.Host:
        """Write a host down that was heard of, unless it is; gives it as it is."""
        found = self.host(name)
        while found.generation == 0:
            found = self.change_host(found, since=self._now()) or self.host(name)
        return found

    def leave(self, name: str, goodbye: str | None, at: float | None) -> model.Host:
        """Note that a host said goodbye, or that it is heard again.

        :param goodbye: ``message.SERVICE``, ``message.SYSTEM``, or None when it is heard again
        :param at: when it was said, in seconds since the epoch; engines hear it a moment apart
        """
        while True:
            found = self.host(name)
            if found.goodbye == goodbye:
                return found
            changed = self.change_host(found, goodbye=goodbye, goodbye_at=at)
            if changed is not None:
                return changed

    def say(self, name: str, word: str | None, reason: str | None) -> model.Host:
        """Note what an operator says of a host, whatever an engine does with it meanwhile.

        :param word: ``model.SUSPECT``, ``model.CLEAR``, or None to take it back
        """
        while True:
            changed = self.change_host(self.host(name), word=word, word_reason=reason)
            if changed is not None:
                return changed

    def forget(self, name: str) -> bool:
        """Remove a host unless it is fenced or being recovered; return whether it is gone."""
        return self._transactions.run(lambda connection: not recoveries.active(connection, name)
                                      and hosts.forget(connection, name))

    def create(self, wanted: Sequence[model.Recovery]) -> set[str]:
        """Write new recoveries down; gives the ids of those that are, now or already.

        Left out are those whose server has another one that has not ended.

        :raises exception.Invalid: one has ended already
        """
        if not wanted:
            return set()
        return self._transactions.run(
            lambda connection: recoveries.create(connection, wanted, self._now()))

    def get(self, recovery_id: str) -> model.Recovery | None:
        """Give a recovery, with its steps."""
        def read(connection: sa.Connection) -> model.Recovery | None:
            found = recoveries.get(connection, recovery_id)
            return found and dataclasses.replace(
                found, steps=steps.get(connection, recovery_id))
        return self._transactions.run(read)

    def active(self, host: str | None = None) -> list[model.Recovery]:
        """Give the recoveries that have not ended, the oldest first, without steps."""
        return self._transactions.run(lambda connection: recoveries.active(connection, host))

    def recoveries(self, filters: Mapping[str, str], limit: int | None = None,
                   marker: str | None = None) -> list[model.Recovery]:
        """Give the recoveries that meet all filters, the newest first, without steps.

        :param filters: by any of server, host, state, outcome and project
        :param marker: begin after the one with this id
        :raises exception.Invalid: there is no such marker, or filter
        """
        unknown = filters.keys() - {'server', 'host', 'state', 'outcome', 'project'}
        if unknown:
            raise exception.Invalid(f'recoveries have no filter {", ".join(sorted(unknown))}')
        return self._transactions.run(
            lambda connection: recoveries.page(connection, dict(filters), limit, marker))

    def take_over(self, recovery_id: str, engine: str) -> model.Recovery:
        """Make an engine the one that works on a recovery; its epoch is a new one.

        One that has ended is given as it is: nobody works on it.

        :raises exception.NotFound: there is no such recovery
        """
        return self._transactions.run(
            lambda connection: recoveries.take_over(connection, recovery_id, engine, self._now()))

    def change(self, recovery: model.Recovery, **values: Any) -> model.Recovery:
        """Change a recovery of which this engine has the newest epoch.

        With state ``ENDED`` comes the outcome, once and for all; the same again is no error.

        :raises exception.Superseded: another engine has taken it over
        :raises exception.Ended: it has ended
        :raises exception.Invalid: it would go back behind the commit point
        """
        return self._transactions.run(
            lambda connection: recoveries.change(connection, recovery, values, self._now()))

    def begin_step(self, recovery: model.Recovery, name: str) -> int:
        """Note that a step begins; gives its attempt, from 1 on.

        :raises exception.Superseded: another engine has taken the recovery over
        :raises exception.Ended: the recovery has ended
        """
        return self._transactions.run(
            lambda connection: steps.begin(connection, recovery, name, self._now()))

    def end_step(self, recovery: model.Recovery, name: str, attempt: int,
                 detail: Mapping[str, Any]) -> None:
        """Note that a step has ended, also the one that ended the recovery.

        :raises exception.Superseded: another engine has taken the recovery over
        """
        self._transactions.run(lambda connection: steps.end(
            connection, recovery, name, attempt, detail, self._now()))

    def request_abort(self, recovery_id: str) -> bool:
        """Note that an operator wants a recovery to end; False if it is past that."""
        return self._transactions.run(
            lambda connection: recoveries.request_abort(connection, recovery_id, self._now()))

    def expected(self, servers: Iterable[str]) -> dict[str, float]:
        """Give the seconds from the start of a backup until it was ready, by server."""
        wanted = list(servers)

        def read(connection: sa.Connection) -> dict[str, float]:
            known: dict[str, float] = {}
            for first in range(0, len(wanted), _IN_ONE_QUERY):
                known |= durations.get(connection, wanted[first:first + _IN_ONE_QUERY])
            return known
        return self._transactions.run(read)

    def learn(self, server_id: str, seconds: float) -> None:
        """Remember how long a backup took until it was ready."""
        self._transactions.run(
            lambda connection: durations.learn(connection, server_id, seconds, self._now()))

    def prune(self, before: float) -> int:
        """Forget recoveries that ended before a moment; gives how many."""
        gone = 0
        while some := self._transactions.run(
                lambda connection: recoveries.prune(connection, before, _IN_ONE_QUERY)):
            gone += some
        return gone
