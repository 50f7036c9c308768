# SPDX-License-Identifier: Apache-2.0
"""Run the flows of recoveries in TaskFlow, and keep them in the database.

An engine that takes over a recovery skips the steps that its flow has completed. Decisions are in
the recovery itself, so that a flow may be lost, or be of another version, without harm.
"""

import collections
import contextlib
from typing import Any
import uuid

import futurist
from oslo_config import cfg
from oslo_log import log as logging
import sqlalchemy as sa
from sqlalchemy import exc as sa_exceptions
from taskflow import engines
from taskflow import exceptions as taskflow_exceptions
from taskflow import states
from taskflow.persistence import backends
from taskflow.persistence import models
from taskflow.persistence.backends.sqlalchemy import tables

from specreds_nova.engine import exception
from specreds_nova.engine.flows import persistence
from specreds_nova.engine.flows import tasks
from specreds_nova.engine.recovery import run as runs

LOG = logging.getLogger(__name__)

# States of a flow whose engine has died; in any other state the flow has ended.
_UNFINISHED = (None, states.PENDING, states.RUNNING, states.SUSPENDING, states.SUSPENDED,
            states.RESUMING)


class FlowRunner:
    """Runs flows. May be used by several threads.

    :param logbooks: what TaskFlow records of the flows
    :param threads: number of threads for steps that are taken at the same time; 0 to take all
        steps one after the other
    """

    def __init__(self, logbooks: persistence.LogbookCache, threads: int) -> None:
        self._logbooks = logbooks
        # Flows in store: all backups of a host would wait while theirs are made.
        self._made: collections.deque[Any] = collections.deque()
        self._kept = 0
        self._options: dict[str, Any] = {'engine': 'serial'}
        if threads:
            self._options = {'engine': 'parallel',
                             'executor': futurist.ThreadPoolExecutor(max_workers=threads)}

    def warm(self, count: int) -> None:
        """Load what TaskFlow loads with the first flow, before a recovery has to wait for it.

        :param count: number of flows to keep in store
        """
        engines.load(tasks.make(), **self._options).compile()
        self._kept = count
        self._made.extend(tasks.make() for _ in range(count))

    def run(self, run: runs.Run) -> None:
        """Make one attempt of a recovery, from the state in which the recovery is.

        :raises exception.RetryAttempt: another attempt is needed
        :raises tasks.Handover: another engine has the recovery, or this one is being stopped
        :raises exception.Unreachable: the database does not answer
        """
        with _translated():
            book = self._logbooks.open(run.id, known=run.recovery.epoch > 1)
            if book is None:
                book = models.LogBook('recovery', run.id)
            engine = self._engine(book, self._flow(book), run)
            if engine is None:
                engine = self._engine(book, self._flow(book, anew=True), run, must=True)
            engine.run()

    def _new(self) -> Any:
        """Return an unused flow."""
        try:
            return self._made.popleft()
        except IndexError:
            return tasks.make()

    def leave(self, recovery_id: str) -> None:
        """Write the flow of a recovery that another engine continues to the database."""
        with _translated():
            self._logbooks.leave(recovery_id)

    def forget(self, recovery_id: str) -> None:
        """Remove the flows of a recovery, if there are any."""
        with _translated():
            self._logbooks.forget(recovery_id)
        if len(self._made) < self._kept:
            self._made.append(tasks.make())

    def close(self) -> None:
        """Close threads and connections."""
        if 'executor' in self._options:
            self._options['executor'].shutdown(wait=False)
        self._logbooks.close()

    @staticmethod
    def _flow(book: Any, anew: bool = False) -> Any:
        """Return the flow to continue, or a new one."""
        attempts = sorted(book, key=lambda attempt: int(attempt.name))
        if attempts and not anew and attempts[-1].state in _UNFINISHED:
            return attempts[-1]
        detail = models.FlowDetail(str(len(attempts) + 1), str(uuid.uuid4()))
        book.add(detail)
        return detail

    def _engine(self, book: Any, detail: Any, run: runs.Run, *, must: bool = False) -> Any:
        """Return the TaskFlow engine for a flow; None if the flow is of another version."""
        engine = engines.load(
            self._new(), flow_detail=detail, book=book, backend=self._logbooks.keep(book),
            never_resolve=True, **self._options)
        try:
            engine.compile()
            engine.storage.inject({tasks.RUN: run}, transient=True)
            engine.prepare()
            engine.validate()
        except taskflow_exceptions.StorageFailure:
            raise
        except taskflow_exceptions.TaskFlowException as exc:
            if must:
                raise
            LOG.warning('recovery %s: its flow cannot be continued, so a new flow begins: %s',
                        run.id, exc)
            return None
        return engine


def from_conf(conf: cfg.ConfigOpts) -> FlowRunner:
    """Return a runner whose flows are kept in the configured database.

    :raises exception.Unreachable: the database does not answer
    """
    threads = 2 * conf.engine.slots
    backend = backends.fetch({
        'connection': conf.database.connection, 'checkin_yield': False})
    prepare(backend)
    logbooks = persistence.LogbookCache(backend)
    logbooks.start()
    runner = FlowRunner(logbooks, threads)
    runner.warm(conf.engine.slots)
    return runner


def prepare(backend: Any) -> None:
    """Create the tables of TaskFlow, unless they exist.

    :raises exception.Unreachable: the database does not answer
    """
    with _translated():
        # The engine's own migrations use the table in which TaskFlow would keep its version.
        metadata = sa.MetaData()
        tables.fetch(metadata)
        # Another engine may be creating them at the same time.
        with contextlib.suppress(sa_exceptions.OperationalError, sa_exceptions.ProgrammingError):
            metadata.create_all(backend.engine)
        with contextlib.closing(backend.get_connection()) as connection:
            connection.validate()


@contextlib.contextmanager
def _translated() -> Any:
    try:
        yield
    except (taskflow_exceptions.StorageFailure, sa_exceptions.SQLAlchemyError) as exc:
        raise exception.Unreachable(f'the database of flows does not answer: {exc}') from exc
