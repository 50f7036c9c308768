# SPDX-License-Identifier: Apache-2.0
"""A load like TPC-B's on the PostgreSQL of a guest G2: ``python -m bench.paper.load``.

Each transaction changes an account, a teller and a branch, at random, and writes a line of
history, all in one message. What pgbench would do if a tenant were allowed to make tables: here
everything is in the one that the guest has for its tenant.
"""

import argparse
from collections.abc import Sequence
import json
import pathlib
import random
import sys
import threading

import psycopg2

from cloud.guests.client import clock
from cloud.guests.client import database

TERMINALS = 4
_TELLERS = 10
# Accounts that are made in one statement.
_AT_ONCE = 5000
_PATIENCE = 10
# What a row has to carry: characters.
_PAYLOAD = 84

_MAKE = f"""\
INSERT INTO ledger (client, id, payload, digest)
SELECT %s, n, repeat(md5(n::text), {_PAYLOAD} / 32 + 1), md5(n::text)
FROM generate_series(%s, %s) n ON CONFLICT DO NOTHING"""
_CHANGE = 'UPDATE ledger SET digest = md5(digest || %s) WHERE client = %s AND id = %s; '
_TRANSACTION = _CHANGE * 3 + (
    'INSERT INTO ledger (client, id, payload, digest) VALUES (%s, %s, %s, %s); '
    "SELECT digest FROM ledger WHERE client = 'accounts' AND id = %s")


def _connect(address: str, account: database.Account) -> 'psycopg2.extensions.connection':
    connection = psycopg2.connect(
        host=address, port=account.port, user=account.user, password=account.password,
        dbname=account.database, sslmode='disable', gssencmode='disable',
        connect_timeout=_PATIENCE)
    connection.autocommit = True
    return connection


def prepare(address: str, account: database.Account, rows: int) -> None:
    """Make accounts, tellers and branches.

    :param rows: number of accounts
    """
    connection = _connect(address, account)
    with connection.cursor() as cursor:
        for client, count in (('branches', TERMINALS), ('tellers', TERMINALS * _TELLERS),
                              ('accounts', rows)):
            for first in range(1, count + 1, _AT_ONCE):
                cursor.execute(_MAKE, (client, first, min(first + _AT_ONCE - 1, count)))
    connection.close()


class Terminal(threading.Thread):
    """A terminal, which runs one transaction after another.

    :ivar done: when each was acknowledged, in seconds since the epoch
    """

    def __init__(self, address: str, account: database.Account, number: int, rows: int,
                 seconds: float) -> None:
        super().__init__(daemon=True)
        self._where = address, account
        self._number, self._rows, self._seconds = number, rows, seconds
        self.done: list[float] = []
        self.error: str | None = None

    def run(self) -> None:
        """Run transactions until the time is up or one fails."""
        try:
            self._run(_connect(*self._where))
        except psycopg2.Error as exc:
            self.error = str(exc).strip()

    def _run(self, connection: 'psycopg2.extensions.connection') -> None:
        history = f'history {self._number}'
        chance = random.Random(self._number)
        until = clock.now() + self._seconds
        with connection.cursor() as cursor:
            cursor.execute('SELECT coalesce(max(id), 0) FROM ledger WHERE client = %s', (history,))
            number = int(cursor.fetchone()[0])
            while clock.now() < until:
                number += 1
                cursor.execute(_TRANSACTION, self._values(chance, history, number))
                self.done.append(clock.now())
        connection.close()

    def _values(self, chance: random.Random, history: str, number: int) -> tuple[object, ...]:
        account, amount = chance.randint(1, self._rows), str(chance.randint(-5000, 5000))
        return (amount, 'accounts', account,
                amount, 'tellers', chance.randint(1, TERMINALS * _TELLERS),
                amount, 'branches', chance.randint(1, TERMINALS),
                history, number, amount.ljust(_PAYLOAD, '.'), amount, account)


def load(address: str, account: database.Account, rows: int, seconds: float
         ) -> tuple[list[float], list[str]]:
    """Run all terminals; return the times of acknowledged transactions, and the errors."""
    terminals = [Terminal(address, account, number, rows, seconds)
                 for number in range(TERMINALS)]
    for terminal in terminals:
        terminal.start()
    for terminal in terminals:
        terminal.join(seconds + 6 * _PATIENCE)
    return (sorted(at for terminal in terminals for at in terminal.done),
            [terminal.error or 'no answer' for terminal in terminals
             if terminal.error or terminal.is_alive()])


def main(argv: Sequence[str]) -> int:
    """:return: the exit status: 1 if something failed"""
    parser = argparse.ArgumentParser(prog='python -m bench.paper.load', description=__doc__)
    parser.add_argument('address')
    parser.add_argument('--account', type=pathlib.Path, required=True, metavar='FILE',
                        help='the image.json of guest G2, which has the password')
    parser.add_argument('--rows', type=int, required=True, help='number of accounts')
    parser.add_argument('--seconds', type=float, default=0.0,
                        help='how long; 0: only make the accounts')
    args = parser.parse_args(argv)
    account = database.Account.read(args.account)
    try:
        if not args.seconds:
            prepare(args.address, account, args.rows)
            return 0
        began = clock.now()
        done, errors = load(args.address, account, args.rows, args.seconds)
    except psycopg2.Error as exc:
        print(f'error: {str(exc).strip()}', file=sys.stderr)
        return 1
    print(json.dumps({'began': began, 'done': [round(at, 4) for at in done], 'errors': errors}))
    return 1 if errors else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
