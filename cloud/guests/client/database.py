# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL connection on which nothing waits longer than it is told to."""

import contextlib
import dataclasses
import json
import pathlib
import select
import time
from typing import Any

import psycopg2
from psycopg2 import extensions

Error = psycopg2.Error


@dataclasses.dataclass(frozen=True)
class Account:
    """Account of a guest's database (see :func:`cloud.guests.describe`), kept out of argv."""

    user: str
    password: str
    database: str
    port: int

    @classmethod
    def read(cls, path: pathlib.Path) -> 'Account':
        """Read it from a guest's ``image.json``."""
        facts = json.loads(path.read_text())
        return cls(**{field.name: facts[field.name] for field in dataclasses.fields(cls)})


def call(address: str, account: Account) -> None:
    """Connect as a program without a time-out does, and ask for a row.

    :raises Error: the server refuses, or the connection is lost
    """
    with contextlib.closing(_connect(address, account)) as connection, \
            connection.cursor() as cursor:
        cursor.execute('SELECT 1')


class Connection:
    """One connection in autocommit mode; after an error it is of no use.

    :param timeout: seconds for connecting, and for each statement
    :raises Error: it could not be made in time
    """

    def __init__(self, address: str, account: Account, timeout: float) -> None:
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        # libpq's own limits are whole seconds, at least two. The callback is a global of the
        # driver: a process has connections of one kind only.
        extensions.set_wait_callback(self._wait)
        self._connection = _connect(address, account)
        self._connection.autocommit = True

    def close(self) -> None:
        """Drop it, without saying goodbye to a server that may not listen."""
        self._connection.close()

    def run(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and give the rows it returns.

        :raises Error: it failed, or there was no answer in time: whether it took effect is not
            known then
        """
        self._deadline = time.monotonic() + self._timeout
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall()) if cursor.description else []

    def _wait(self, connection: Any) -> None:
        poll = select.poll()
        while True:
            state = connection.poll()
            if state == extensions.POLL_OK:
                return
            left = self._deadline - time.monotonic()
            poll.register(connection.fileno(), select.POLLIN if state == extensions.POLL_READ
                          else select.POLLOUT)
            if left <= 0 or not poll.poll(left * 1e3):
                raise psycopg2.OperationalError(f'no answer within {self._timeout:g} s')


def _connect(address: str, account: Account) -> Any:
    return psycopg2.connect(
        host=address, port=account.port, user=account.user, password=account.password,
        dbname=account.database, sslmode='disable', gssencmode='disable')
