# SPDX-License-Identifier: Apache-2.0
"""The logbooks of the flows that run here: in memory, and some seconds later in the database.

To write each change to the database before the flow continues would take several times as long as
all work until a host is asked to start a backup. The writes may be late, because an engine that
continues from an older logbook only repeats steps that may be repeated.
"""

from collections.abc import Callable
import contextlib
import threading
import time
from typing import Any

from oslo_log import log as logging
from sqlalchemy import exc as sa_exceptions
from taskflow import exceptions as taskflow_exceptions
from taskflow.persistence import base

LOG = logging.getLogger(__name__)

# Seconds after which a change is written: not while backups are being started.
_LATE = 2.0
_LOOK = 0.25


class LogbookCache:
    """The logbooks of the flows that run here. May be used by several threads.

    :param backend: backend of TaskFlow's persistence
    """

    def __init__(self, backend: Any, now: Callable[[], float] = time.monotonic) -> None:
        self._backend = backend
        self._now = now
        self._lock = threading.Lock()
        # Logbooks, and times of unwritten changes, by recovery.
        self._books: dict[str, Any] = {}
        self._changed: dict[str, float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name='logbooks', daemon=True)

    def start(self) -> None:
        """Start the thread that writes changes."""
        self._thread.start()

    def close(self) -> None:
        """Write all changes, and close the database."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()
        self.write(late=0.0)
        self._backend.close()

    def open(self, recovery_id: str, *, known: bool) -> Any:
        """Return the logbook of a recovery as it was written last; None if it never was.

        :param known: whether the logbook may have been written
        """
        with self._lock:
            if recovery_id in self._books:
                return self._books[recovery_id]
        if not known:
            return None
        with contextlib.closing(self._backend.get_connection()) as connection:
            try:
                return connection.get_logbook(recovery_id)
            except taskflow_exceptions.NotFound:
                return None

    def keep(self, book: Any) -> '_Backend':
        """Start to track a logbook; return the backend to which TaskFlow writes its changes."""
        with self._lock:
            self._books[book.uuid] = book
        return _Backend(lambda: self._note(book.uuid))

    def leave(self, recovery_id: str) -> None:
        """Write a logbook that another engine continues, and stop to track it."""
        self._write(recovery_id)
        with self._lock:
            self._books.pop(recovery_id, None)
            self._changed.pop(recovery_id, None)

    def forget(self, recovery_id: str) -> None:
        """Remove a logbook, if there is one."""
        with self._lock:
            self._books.pop(recovery_id, None)
            self._changed.pop(recovery_id, None)
        with (contextlib.closing(self._backend.get_connection()) as connection,
              contextlib.suppress(taskflow_exceptions.NotFound)):
            connection.destroy_logbook(recovery_id)

    def write(self, late: float = _LATE) -> None:
        """Write the logbooks with changes of at least this age in seconds."""
        now = self._now()
        with self._lock:
            due = [recovery_id for recovery_id, changed in self._changed.items()
                   if now - changed >= late]
        for recovery_id in due:
            self._write(recovery_id)

    def _note(self, recovery_id: str) -> None:
        with self._lock:
            if recovery_id in self._books:
                self._changed.setdefault(recovery_id, self._now())

    def _write(self, recovery_id: str) -> None:
        with self._lock:
            changed = self._changed.pop(recovery_id, None)
            book = self._books.get(recovery_id)
        if changed is None or book is None:
            return
        try:
            with contextlib.closing(self._backend.get_connection()) as connection:
                connection.save_logbook(book)
        except (taskflow_exceptions.TaskFlowException, sa_exceptions.SQLAlchemyError,
                RuntimeError) as exc:
            # RuntimeError: the logbook was changed while it was being written.
            LOG.debug('recovery %s: its flow is written later: %s', recovery_id, exc)
            self._note(recovery_id)

    def _work(self) -> None:
        while not self._stopped.wait(_LOOK):
            try:
                self.write()
            except Exception:
                LOG.exception('the flows of recoveries cannot be written; they are tried again')


class _Backend(base.Backend):
    """A backend for TaskFlow that only notes changes: TaskFlow holds the logbook itself."""

    def __init__(self, changed: Callable[[], None]) -> None:
        super().__init__({})
        self.changed = changed

    def get_connection(self) -> '_Connection':
        """Return a connection."""
        return _Connection(self)

    def close(self) -> None:
        """Do nothing."""


class _Connection(base.Connection):
    """A connection that notes each change."""

    def __init__(self, backend: _Backend) -> None:
        self._backend = backend

    @property
    def backend(self) -> _Backend:
        """The backend of the connection."""
        return self._backend

    def close(self) -> None:
        """Do nothing."""

    def upgrade(self) -> None:
        """Do nothing: there is no schema."""

    def validate(self) -> None:
        """Do nothing: there is no schema."""

    def update_atom_details(self, atom_detail: Any) -> Any:
        """Note that a task has changed."""
        self._backend.changed()
        return atom_detail

    def update_flow_details(self, flow_detail: Any) -> Any:
        """Note that a flow has changed."""
        self._backend.changed()
        return flow_detail

    def save_logbook(self, book: Any) -> Any:
        """Note that a logbook has changed."""
        self._backend.changed()
        return book

    def _not_here(self, *_arguments: Any, **_more: Any) -> Any:
        raise NotImplementedError('logbooks are read by LogbookCache')

    get_logbook = get_logbooks = destroy_logbook = clear_all = _not_here
    get_flow_details = get_flows_for_book = get_atom_details = get_atoms_for_flow = _not_here
