# SPDX-License-Identifier: Apache-2.0
"""Flows of recoveries, run by TaskFlow and kept in the database.

What TaskFlow keeps saves whoever takes over from taking steps again that were taken; what has been
decided is in the recovery itself, so a flow that is lost, or of another version, is no loss.
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

# Of what a flow was when its engine died; whatever else it was has come to its end.
_GOES_ON = (None, states.PENDING, states.RUNNING, states.SUSPENDING, states.SUSPENDED,
            states.RESUMING)


class FlowRunner:
    """Runs flows. May be used by several threads.

    :param book: where they are noted down
    :param threads: for steps that are taken side by side; 0 for none, so that they never are
    """

    def __init__(self, book: persistence.LogbookCache, threads: int) -> None:
        self._notes = book
        # Some that nobody has yet: to make one is a part of what all backups of a host wait for.
        self._made: collections.deque[Any] = collections.deque()
        self._kept = 0
        self._options: dict[str, Any] = {'engine': 'serial'}
        if threads:
            self._options = {'engine': 'parallel',
                             'executor': futurist.ThreadPoolExecutor(max_workers=threads)}

    def warm(self, count: int) -> None:
        """Have all loaded that TaskFlow loads with the first flow: then it is late for that.

        :param count: flows to keep in store
        """
        engines.load(tasks.make(), **self._options).compile()
        self._kept = count
        self._made.extend(tasks.make() for _ in range(count))

    def run(self, run: runs.Run) -> None:
        """Bring a recovery as far as one attempt does, from where it is.

        :raises Again: there has to be another attempt
        :raises Left: it is another engine's, or this one is being stopped
        :raises exception.Unreachable: the database does not answer
        """
        with _translated():
            book = self._notes.open(run.id, known=run.recovery.epoch > 1)
            if book is None:
                book = models.LogBook('recovery', run.id)
            engine = self._engine(book, self._flow(book), run)
            if engine is None:
                engine = self._engine(book, self._flow(book, anew=True), run, must=True)
            engine.run()

    def _new(self) -> Any:
        """Give a flow that nobody else has."""
        try:
            return self._made.popleft()
        except IndexError:
            return tasks.make()

    def leave(self, recovery_id: str) -> None:
        """Write down how far a recovery is that others go on with."""
        with _translated():
            self._notes.leave(recovery_id)

    def forget(self, recovery_id: str) -> None:
        """Remove what is kept of a recovery; nothing happens if nothing is."""
        with _translated():
            self._notes.forget(recovery_id)
        if len(self._made) < self._kept:
            self._made.append(tasks.make())

    def close(self) -> None:
        """Let go of threads and connections."""
        if 'executor' in self._options:
            self._options['executor'].shutdown(wait=False)
        self._notes.close()

    @staticmethod
    def _flow(book: Any, anew: bool = False) -> Any:
        """Give the flow that is to go on, or a new one."""
        attempts = sorted(book, key=lambda one: int(one.name))
        if attempts and not anew and attempts[-1].state in _GOES_ON:
            return attempts[-1]
        detail = models.FlowDetail(str(len(attempts) + 1), str(uuid.uuid4()))
        book.add(detail)
        return detail

    def _engine(self, book: Any, detail: Any, run: runs.Run, *, must: bool = False) -> Any:
        """Make what runs a flow; None if the flow is of another version."""
        engine = engines.load(
            self._new(), flow_detail=detail, book=book, backend=self._notes.keep(book),
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
            LOG.warning('the flow of recovery %s cannot go on, so another one begins: %s',
                        run.id, exc)
            return None
        return engine


def from_conf(conf: cfg.ConfigOpts) -> FlowRunner:
    """Give the flows that are kept in the database of the configuration.

    :raises exception.Unreachable: it does not answer
    """
    threads = 2 * conf.engine.slots
    backend = backends.fetch({
        'connection': conf.database.connection, 'checkin_yield': False})
    prepare(backend)
    book = persistence.LogbookCache(backend)
    book.start()
    runner = FlowRunner(book, threads)
    runner.warm(conf.engine.slots)
    return runner


def prepare(backend: Any) -> None:
    """Make the tables that TaskFlow needs, unless they are there.

    :raises exception.Unreachable: the database does not answer
    """
    with _translated():
        # Beside the engine's own tables there is no room for the version that TaskFlow notes.
        metadata = sa.MetaData()
        tables.fetch(metadata)
        # Another engine may be making them at this very moment.
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
