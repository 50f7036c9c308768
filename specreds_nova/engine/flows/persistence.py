# SPDX-License-Identifier: Apache-2.0
"""What TaskFlow notes of flows that run here: in memory, and a moment later in the database.

To have each of TaskFlow's notes in the database before a flow goes on takes several times as long
as all that is done until a backup is asked to start. They can be late, as nothing depends on them:
whoever goes on with a flow from an older note takes steps again that may be taken again.
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

# Seconds after which a note is written down: not while backups are being started.
_LATE = 2.0
_LOOK = 0.25


class LogbookCache:
    """The books of the flows that run here. May be used by several threads.

    :param backend: of TaskFlow's persistence, where they are kept
    """

    def __init__(self, backend: Any, now: Callable[[], float] = time.monotonic) -> None:
        self._backend = backend
        self._now = now
        self._lock = threading.Lock()
        # By the recovery that they are of, with when they were changed.
        self._books: dict[str, Any] = {}
        self._changed: dict[str, float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name='notebook', daemon=True)

    def start(self) -> None:
        """Write down what is late, from a thread of its own."""
        self._thread.start()

    def close(self) -> None:
        """Write everything down, and let go of the database."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()
        self.write(late=0.0)
        self._backend.close()

    def open(self, recovery_id: str, *, known: bool) -> Any:
        """Give the book of a recovery as it was written down last; None if it never was.

        :param known: it may have been
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
        """Begin to note what happens to a book; gives where TaskFlow writes to."""
        with self._lock:
            self._books[book.uuid] = book
        return _Backend(lambda: self._note(book.uuid))

    def leave(self, recovery_id: str) -> None:
        """Nothing happens to a book here any more: write it down."""
        self._write(recovery_id)
        with self._lock:
            self._books.pop(recovery_id, None)
            self._changed.pop(recovery_id, None)

    def forget(self, recovery_id: str) -> None:
        """Remove a book; nothing happens if there is none."""
        with self._lock:
            self._books.pop(recovery_id, None)
            self._changed.pop(recovery_id, None)
        with (contextlib.closing(self._backend.get_connection()) as connection,
              contextlib.suppress(taskflow_exceptions.NotFound)):
            connection.destroy_logbook(recovery_id)

    def write(self, late: float = _LATE) -> None:
        """Write down what was changed so long ago."""
        now = self._now()
        with self._lock:
            due = [one for one, changed in self._changed.items() if now - changed >= late]
        for one in due:
            self._write(one)

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
            # RuntimeError: it was changed in the middle of it.
            LOG.debug('the flow of recovery %s is written down later: %s', recovery_id, exc)
            self._note(recovery_id)

    def _work(self) -> None:
        while not self._stopped.wait(_LOOK):
            try:
                self.write()
            except Exception:
                LOG.exception('flows cannot be written down')


class _Backend(base.Backend):
    """What TaskFlow takes for where it writes to: what it has in memory is the book itself."""

    def __init__(self, changed: Callable[[], None]) -> None:
        super().__init__({})
        self.changed = changed

    def get_connection(self) -> '_Connection':
        """Connect."""
        return _Connection(self)

    def close(self) -> None:
        """Disconnect."""


class _Connection(base.Connection):
    """Notes that something was changed."""

    def __init__(self, backend: _Backend) -> None:
        self._backend = backend

    @property
    def backend(self) -> _Backend:
        """Where it leads to."""
        return self._backend

    def close(self) -> None:
        """Disconnect."""

    def upgrade(self) -> None:
        """There is nothing older."""

    def validate(self) -> None:
        """It is what it is."""

    def update_atom_details(self, atom_detail: Any) -> Any:
        """A task has changed."""
        self._backend.changed()
        return atom_detail

    def update_flow_details(self, flow_detail: Any) -> Any:
        """A flow has changed."""
        self._backend.changed()
        return flow_detail

    def save_logbook(self, book: Any) -> Any:
        """A book has changed."""
        self._backend.changed()
        return book

    def _not_here(self, *_arguments: Any, **_more: Any) -> Any:
        raise NotImplementedError('books are read from the database')

    get_logbook = get_logbooks = destroy_logbook = clear_all = _not_here
    get_flow_details = get_flows_for_book = get_atom_details = get_atoms_for_flow = _not_here
