# SPDX-License-Identifier: Apache-2.0
"""A tenant that writes and reads all the time, and goes on whatever happens to the server."""

from collections.abc import Callable
import dataclasses
import pathlib
import random
import threading

from cloud.guests.client import clock
from cloud.guests.client import database
from cloud.guests.client import ledger
from cloud.guests.client import service

_INSERT = ('INSERT INTO ledger (client, id, payload, digest) VALUES (%s, %s, %s, %s) '
           'ON CONFLICT DO NOTHING')
_SELECT = 'SELECT digest FROM ledger WHERE client = %s AND id = %s'
_ALL = 'SELECT id, digest FROM ledger WHERE client = %s'


@dataclasses.dataclass(frozen=True)
class Options:
    """How to use the server.

    :param client: name under which the transactions are written
    :param interval_s: seconds from one transaction to the next
    :param timeout_s: seconds to wait for a connection, or for an answer
    :param payload: characters that a transaction writes
    """

    address: str
    account: database.Account
    client: str
    log: pathlib.Path
    interval_s: float = 0.005
    timeout_s: float = 0.5
    payload: int = 100


class Corrupt(Exception):
    """The server has lost or changed what it had acknowledged."""


class Workload:
    """Writes a transaction, reads an older one back, and so on.

    A transaction of which the outcome is not known is tried again under the same number.

    :param tell: called with each event: what it is, and more about it
    """

    def __init__(self, options: Options, tell: Callable[[str, object], None]) -> None:
        self._options = options
        self._tell = tell
        self._connection: database.Connection | None = None
        self._trouble = ''
        self.record = service.Record()

    def run(self, stop: threading.Event) -> None:
        """Go on until stopped.

        :raises Corrupt: something acknowledged was not there when it was read back
        """
        number = max(ledger.read(self._options.log), default=0) + 1
        first = number
        with ledger.Ledger(self._options.log) as log:
            due = clock.now()
            while not stop.is_set():
                began = clock.now()
                try:
                    self._once(number, first)
                except database.Error as exc:
                    self._failed(str(exc).strip())
                else:
                    at = clock.now()
                    log.acknowledged(number, at)
                    if outage := self.record.answered(at, at - began):
                        self._tell('outage', dataclasses.asdict(outage))
                    number += 1
                    self._trouble = ''
                # What was missed is not made up for.
                due = max(due + self._options.interval_s, clock.now())
                stop.wait(max(0.0, due - clock.now()))
        self._drop()

    def _once(self, number: int, first: int) -> None:
        options = self._options
        if self._connection is None:
            self._connection = database.Connection(options.address, options.account,
                                                   options.timeout_s)
            self._tell('connected', {})
        text = ledger.payload(options.client, number, options.payload)
        self._connection.run(_INSERT, (options.client, number, text, ledger.digest(text)))
        older = random.randint(first, number)
        rows = self._connection.run(_SELECT, (options.client, older))
        expected = ledger.digest(ledger.payload(options.client, older, options.payload))
        if rows != [(expected,)]:
            raise Corrupt(f'transaction {older} of {options.client} was acknowledged, but the '
                          f'server answers {rows}')

    def _failed(self, error: str) -> None:
        self.record.failed(error)
        if error != self._trouble:
            self._trouble = error
            self._tell('failed', {'error': error})
        self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def verify(options: Options, timeout_s: float = 60.0) -> dict[str, list[int]]:
    """Read everything back, and compare it with what was acknowledged.

    :param timeout_s: seconds for it
    :raises database.Error: the server does not answer
    """
    connection = database.Connection(options.address, options.account, timeout_s)
    try:
        there = dict(connection.run(_ALL, (options.client,)))
    finally:
        connection.close()
    return ledger.differences(ledger.read(options.log), there, options.client, options.payload)
