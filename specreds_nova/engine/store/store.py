# SPDX-License-Identifier: Apache-2.0
"""The database of all engines."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
import dataclasses
import functools
import time
from typing import Any, NamedTuple

from oslo_config import cfg
from oslo_db import exception as db_exception
from oslo_log import log as logging
import sqlalchemy as sa

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.store import connection as db_connection
from specreds_nova.engine.store import crashes
from specreds_nova.engine.store import durations
from specreds_nova.engine.store import hosts
from specreds_nova.engine.store import modes
from specreds_nova.engine.store import recoveries
from specreds_nova.engine.store import samples
from specreds_nova.engine.store import steps
from specreds_nova.engine.store import votes

LOG = logging.getLogger(__name__)

_IN_ONE_QUERY = 500
# Repetitions of a transaction on the row of an engine, which is soon written again anyway.
_ROW_TRIES = 1


def from_conf(conf: cfg.ConfigOpts) -> 'Store':
    """Return the store in the configured database.

    :raises exception.Invalid: the configuration names no database
    :raises exception.Unreachable: the database does not answer
    """
    engine = db_connection.connect(conf)
    # Only MySQL's clients have time-outs.
    return Store(engine, rows=db_connection.connect(conf, db_connection.ROW_TIMEOUTS)
                 if engine.dialect.name == 'mysql' else None)


class Change(NamedTuple):
    """What is written of a recovery: the arguments of :meth:`Store.change`."""

    recovery: model.Recovery
    begun: Sequence[model.Step]
    ended: Sequence[model.Step]
    values: Mapping[str, Any]


class Store:
    """The database. May be used by several threads.

    :param engine: engine of SQLAlchemy, made by oslo.db
    :param now: returns the time in seconds since the epoch
    :param rows: for the rows of engines, whose transactions end sooner if the database hangs
    :raises exception.Unreachable: every method, if the database does not answer
    """

    def __init__(self, engine: sa.Engine, now: Callable[[], float] = time.time,
                 rows: sa.Engine | None = None) -> None:
        self._transactions = db_connection.Transactions(engine)
        self._rows = (self._transactions if rows is None
                      else db_connection.Transactions(rows, _ROW_TRIES))
        self._now = now
        self._samples = samples.Samples(self._learn)

    def host(self, name: str) -> model.Host:
        """Return a host; a host that is not recorded is trusted, and of generation 0."""
        return self.hosts_named([name])[0]

    def hosts_named(self, names: Sequence[str]) -> list[model.Host]:
        """Return hosts as :meth:`host` does."""
        def read(connection: sa.Connection) -> dict[str, model.Host]:
            return {name: hosts.get(connection, name) or model.Host(name) for name in set(names)}
        known = self._transactions.run(read)
        return [known[name] for name in names]

    def hosts(self) -> list[model.Host]:
        """Return all recorded hosts, by name."""
        return self._transactions.run(hosts.get_all)

    def notable_hosts(self) -> list[model.Host]:
        """Return the notable hosts, by name."""
        return self._transactions.run(hosts.get_notable)

    def host_count(self) -> int:
        """Return the number of recorded hosts."""
        return self._transactions.run(hosts.count)

    def change_host(self, host: model.Host, **values: Any) -> model.Host | None:
        """Change a host; return None if it was changed since it was read.

        A new state also sets ``since`` to the current time, unless ``since`` is given.

        :raises exception.Invalid: a host has no such value
        """
        if values.get('state', host.state) != host.state:
            values.setdefault('since', self._now())
        return self._transactions.run(
            lambda connection: hosts.change(connection, host, dict(values)))

    def see(self, name: str) -> model.Host:
        """Record a host, unless it is recorded, and return it."""
        host = self.host(name)
        while host.generation == 0:
            host = self.change_host(host, since=self._now()) or self.host(name)
        return host

    def record(self, kernels: Mapping[str, str]) -> None:
        """Record hosts that are not recorded, and boots of hosts that have none.

        :param kernels: the boot of each host; empty if it does not report that
        """
        for name in self._transactions.run(lambda connection: hosts.record(connection, kernels)):
            # Another engine records hosts, too.
            host = self.host(name)
            if host.generation == 0:
                self.change_host(host, kernel=kernels[name] or None)

    def booted(self, name: str, kernel: str) -> None:
        """Record the boot of a host up to which all servers are known that boots have ended."""
        while True:
            host = self.host(name)
            if host.kernel == kernel or self.change_host(host, kernel=kernel) is not None:
                return

    def report(self, name: str, what: str, state: str) -> None:
        """Record a state of a host.

        :param what: ``sentinel`` or ``voices``
        """
        while True:
            host = self.host(name)
            if (getattr(host, what) == state
                    or self.change_host(host, **{what: state}) is not None):
                return

    def sentinels(self) -> dict[str | None, int]:
        """Return the number of hosts by the state of their sentinels; None for unknown."""
        return self._transactions.run(hosts.sentinels)

    def voices(self) -> dict[str | None, int]:
        """Return the number of hosts by the voices that are heard; None for unknown."""
        return self._transactions.run(hosts.voices)

    def silent(self) -> frozenset[str]:
        """Return the hosts that are recorded as silent."""
        return self._transactions.run(hosts.silent)

    def silence(self, since: Mapping[str, float | None]) -> None:
        """Record since when hosts are silent, which only operators read; None for heard hosts."""
        if since:
            self._transactions.run(functools.partial(hosts.silence, since=since))

    def showing(self) -> dict[str, int]:
        """Return the generation of each host that may hide no server."""
        return self._transactions.run(hosts.showing)

    def show(self, names: Sequence[str]) -> None:
        """Record for hosts, if they are trusted, that they may hide no server.

        Each of these hosts has another generation then, also if that was recorded before.
        """
        for first in range(0, len(names), _IN_ONE_QUERY):
            part = names[first:first + _IN_ONE_QUERY]
            self._transactions.run(functools.partial(hosts.show, names=part))

    def hide(self, name: str, generation: int) -> bool:
        """Record that a host hides its servers again, unless it was changed since it was read."""
        host = self.host(name)
        return host.generation == generation and (
            self.change_host(host, shows=False) is not None)

    def leave(self, name: str, goodbye: str | None, at: float | None) -> model.Host:
        """Record the goodbye of a host, or that the host is heard again.

        :param goodbye: ``message.SERVICE``, ``message.SYSTEM``, or None if the host is heard again
        :param at: time of the goodbye in seconds since the epoch, as this engine heard it
        """
        while True:
            host = self.host(name)
            if host.goodbye == goodbye:
                return host
            changed = self.change_host(host, goodbye=goodbye, goodbye_at=at)
            if changed is not None:
                return changed

    def say(self, name: str, word: str | None, reason: str | None) -> model.Host:
        """Record the word of an operator, even if engines change the host at the same time.

        :param word: ``model.SUSPECT``, ``model.CLEAR``, or None to remove the word
        """
        while True:
            changed = self.change_host(self.host(name), word=word, word_reason=reason)
            if changed is not None:
                return changed

    def modes(self) -> list[model.Mode]:
        """Return all modes, by scope and name; those that have ended are among them."""
        return self._transactions.run(modes.get_all)

    def set_mode(self, mode: model.Mode) -> None:
        """Record a mode. A mode that lasts replaces each other one of its scope and name."""
        self._transactions.run(lambda connection: modes.put(connection, mode))

    def unset_mode(self, scope: str, name: str) -> bool:
        """Remove the modes of a scope and name; return whether there was one."""
        return self._transactions.run(lambda connection: modes.remove(connection, scope, name))

    def vote(self, vote: model.Vote) -> None:
        """Replace the vote of an engine, and raise its counter, to the vote's counter at least."""
        self._rows.run(lambda connection: votes.cast(connection, vote))

    def votes(self) -> list[model.Vote]:
        """Return the votes of all engines, by name."""
        return self._rows.run(votes.get_all)

    def withdraw(self, vote: model.Vote) -> None:
        """Remove the row of an engine, unless the engine has voted since."""
        self._rows.run(lambda connection: votes.withdraw(connection, vote))

    def crashes(self) -> list[model.Crash]:
        """Return the crashes that have to wait, the oldest first."""
        return self._transactions.run(crashes.get_all)

    def keep_crash(self, crash: model.Crash) -> None:
        """Record a crash that has to wait, for engines that start after it."""
        self._transactions.run(lambda connection: crashes.keep(connection, crash))

    def drop_crash(self, crash: model.Crash) -> None:
        """Remove a crash, unless the server has crashed again on the host."""
        self._transactions.run(lambda connection: crashes.drop(connection, crash))

    def forget(self, name: str) -> bool:
        """Remove a host unless it is fenced or being recovered; return whether it is gone."""
        return self._transactions.run(lambda connection: not recoveries.active(connection, name)
                                      and hosts.forget(connection, name))

    def create(self, wanted: Sequence[model.Recovery]) -> set[str]:
        """Record new recoveries, and return the ids of those that are recorded.

        A recovery is left out if its server has another active recovery.

        :raises exception.Invalid: a recovery has ended, and was not only observed
        """
        if not wanted:
            return set()
        return self._transactions.run(
            lambda connection: recoveries.create(connection, wanted, self._now()))

    def observe(self, host: model.Host, wanted: Sequence[model.Recovery], **values: Any
                ) -> model.Host | None:
        """Record recoveries of a host that are only observed, and change the host.

        :returns: None, and nothing is recorded, if the host was changed since it was read: another
            engine may have recorded them
        :raises exception.Invalid: a recovery was not only observed, or a host has no such value
        """
        def write(connection: sa.Connection) -> model.Host | None:
            changed = hosts.change(connection, host, dict(values))
            if changed is not None and wanted:
                recoveries.create(connection, wanted, self._now())
            return changed
        return self._transactions.run(write)

    def returned(self, host: model.Host, **values: Any) -> model.Host | None:
        """Change a host that is back; its recoveries that were only observed have ended.

        :returns: None, and nothing is recorded, if the host was changed since it was read
        """
        if values.get('state', host.state) != host.state:
            values.setdefault('since', self._now())

        def write(connection: sa.Connection) -> model.Host | None:
            changed = hosts.change(connection, host, dict(values))
            if changed is not None:
                recoveries.end_observed(connection, host.name, self._now())
            return changed
        return self._transactions.run(write)

    def note_room(self, recovery_id: str, destination: str | None, error: str | None) -> None:
        """Record where the backup of an observed recovery would have been, or why nowhere."""
        self._transactions.run(lambda connection: recoveries.note_room(
            connection, recovery_id, destination, error))

    def get(self, recovery_id: str) -> model.Recovery | None:
        """Return a recovery with its steps."""
        def read(connection: sa.Connection) -> model.Recovery | None:
            recovery = recoveries.get(connection, recovery_id)
            return recovery and dataclasses.replace(
                recovery, steps=steps.get(connection, recovery_id))
        return self._transactions.run(read)

    def active(self, host: str | None = None, servers: Collection[str] | None = None
               ) -> list[model.Recovery]:
        """Return the recoveries that have not ended, the oldest first, without steps.

        :param host: only recoveries of this host that has failed
        :param servers: only recoveries of these servers
        """
        return self._transactions.run(
            lambda connection: recoveries.active(connection, host, servers))

    def backups(self, servers: Collection[str] | None = None) -> list[model.BackupPlace]:
        """Return the recoveries that have a backup or are about to have one.

        :param servers: only recoveries of these servers
        """
        return self._transactions.run(lambda connection: recoveries.backups(connection, servers))

    def active_states(self) -> dict[str, int]:
        """Return the number of recoveries that have not ended, by state."""
        return self._transactions.run(recoveries.states)

    def recoveries(self, filters: Mapping[str, str], limit: int | None = None,
                   marker: str | None = None) -> list[model.Recovery]:
        """Return the recoveries that meet all filters, the newest first, without steps.

        :param filters: values by any of server, host, state, outcome and project
        :param marker: id of the recovery after which to begin
        :raises exception.Invalid: the marker or a filter does not exist
        """
        unknown = filters.keys() - {'server', 'host', 'state', 'outcome', 'project'}
        if unknown:
            raise exception.Invalid(f'recoveries have no filter {", ".join(sorted(unknown))}')
        return self._transactions.run(
            lambda connection: recoveries.page(connection, dict(filters), limit, marker))

    def free(self, ended: Collection[str]) -> list[model.Recovery]:
        """Return the active recoveries on which no living engine works, the oldest first.

        They have only what their order and a claim need.

        :param ended: engines whose leases are over; those without a row need not be among them
        """
        return self._transactions.run(lambda connection: recoveries.free(connection, ended))

    def take_over(self, recovery: model.Recovery, engine: str) -> model.Recovery:
        """Claim a recovery for an engine in a new epoch, and return it with its steps.

        :param recovery: as it was read: in another epoch, it cannot be claimed
        :raises exception.Superseded: another engine has claimed the recovery, or it has ended
        """
        def take(connection: sa.Connection) -> model.Recovery:
            taken = recoveries.take_over(connection, recovery, engine, self._now())
            return dataclasses.replace(taken, steps=steps.get(connection, recovery.id))
        return self._transactions.run(take)

    def change(self, recovery: model.Recovery, *, begun: Sequence[model.Step] = (),
               ended: Sequence[model.Step] = (), **values: Any) -> model.Recovery:
        """Change a recovery in its newest epoch, and record steps of it, in one transaction.

        State ``ENDED`` needs an outcome, and is final; it may be repeated with the same outcome.

        :param begun: steps that begin; those that take no time have ended as well
        :param ended: steps that were begun before, and end. If nothing else is to be written, the
            recovery may have ended
        :returns: the recovery as it is stored, with the steps that begin and their attempts
        :raises exception.Superseded: another engine has taken over the recovery
        :raises exception.Ended: the recovery has ended
        :raises exception.Invalid: the recovery is past the commit point
        """
        def write(connection: sa.Connection, *, anew: bool) -> model.Recovery:
            if values or begun or not ended:
                changed = recoveries.change(connection, recovery, values, self._now())
            else:
                changed = recoveries.hold(connection, recovery, self._now())
            steps.end(connection, [(recovery.id, step) for step in ended])
            return dataclasses.replace(
                changed, steps=steps.begin(connection, recovery.id, begun, anew=anew))

        try:
            return self._transactions.run(functools.partial(write, anew=False))
        except db_exception.DBDuplicateEntry:
            # The recovery was read without its steps, or a commit whose answer was lost succeeded.
            return self._transactions.run(functools.partial(write, anew=True))

    def change_all(self, changes: Sequence[Change]) -> list[model.Recovery | Exception]:
        """Change recoveries, each as :meth:`change` does, in one transaction if that is possible.

        :returns: for each change its result, or its error
        """
        changed: list[model.Recovery | None] = [None] * len(changes)
        if len(changes) > 1:
            try:
                changed = self._transactions.run(
                    lambda connection: self._change_all(connection, changes))
            except (db_exception.DBError, exception.Invalid) as exc:
                LOG.info('changes of %d recoveries are made one by one: %s', len(changes), exc)
        return [self._alone(change) if answer is None else answer
                for change, answer in zip(changes, changed, strict=True)]

    def _change_all(self, connection: sa.Connection, changes: Sequence[Change]
                    ) -> list[model.Recovery | None]:
        """Make changes of recoveries that are as they were read; return None for others."""
        answers = [recoveries.change_known(connection, change.recovery, change.values, self._now())
                   for change in changes]
        made = [change for change, answer in zip(changes, answers, strict=True)
                if answer is not None]
        steps.end(connection, [(change.recovery.id, step)
                               for change in made for step in change.ended])
        steps.insert(connection, [(change.recovery.id, step)
                                  for change in made for step in change.begun])
        return [answer and dataclasses.replace(answer, steps=tuple(change.begun))
                for change, answer in zip(changes, answers, strict=True)]

    def _alone(self, change: Change) -> model.Recovery | Exception:
        try:
            return self.change(change.recovery, begun=change.begun, ended=change.ended,
                               **change.values)
        except Exception as exc:
            return exc

    def refresh(self, recovery: model.Recovery) -> model.Recovery:
        """Return a recovery of this engine with what others may have changed.

        :raises exception.Superseded: another engine has taken over the recovery
        :raises exception.Ended: the recovery has ended
        """
        [current] = self.refresh_all([recovery])
        if isinstance(current, Exception):
            raise current
        return current

    def refresh_all(self, known: Sequence[model.Recovery]) -> list[model.Recovery | Exception]:
        """Return recoveries, each as :meth:`refresh` does, or its error."""
        return self._transactions.run(
            lambda connection: recoveries.refresh(connection, known))

    def revoked(self, engine: str) -> set[str]:
        """Return the recoveries that race, and are to be aborted or belong to other engines."""
        return self._transactions.run(lambda connection: recoveries.revoked(connection, engine))

    def request_abort(self, recovery_id: str, why: str) -> bool:
        """Record who aborts a recovery; return False if it is past the commit point."""
        return self._transactions.run(lambda connection: recoveries.request_abort(
            connection, recovery_id, why, self._now()))

    def expected(self, servers: Iterable[str]) -> dict[str, float]:
        """Return the seconds that the next backup is expected to take, by server."""
        try:
            self._samples.flush()
        except (exception.Unreachable, db_exception.DBError) as exc:
            # Without them the forecast is a little worse.
            LOG.warning('durations of backups are written later: %s', exc)
        wanted = list(servers)

        def read(connection: sa.Connection) -> dict[str, float]:
            known: dict[str, float] = {}
            for first in range(0, len(wanted), _IN_ONE_QUERY):
                known |= durations.get(connection, wanted[first:first + _IN_ONE_QUERY])
            return known
        return self._transactions.run(read)

    def learn(self, server_id: str, seconds: float) -> None:
        """Record how long a backup took until it was ready, within a second or :meth:`flush`."""
        self._samples.add(server_id, seconds)

    def flush(self) -> None:
        """Write what was learned to the database."""
        self._samples.flush()

    def close(self) -> None:
        """Close the connections to the database."""
        self._transactions.close()
        self._rows.close()

    def _learn(self, taken: Mapping[str, Sequence[float]]) -> None:
        self._transactions.run(
            lambda connection: durations.learn(connection, taken, self._now()))

    def prune(self, before: float) -> int:
        """Remove the recoveries that ended before a time; return how many."""
        removed = 0
        while some := self._transactions.run(
                lambda connection: recoveries.prune(connection, before, _IN_ONE_QUERY)):
            removed += some
        return removed
