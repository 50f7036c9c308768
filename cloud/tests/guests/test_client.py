# SPDX-License-Identifier: Apache-2.0
"""The tenant's client: its journal, its outages and its checks."""

import itertools
import pathlib
import threading
from unittest import mock
import zlib

import fixtures
import testtools

from cloud.guests.client import callers
from cloud.guests.client import clock
from cloud.guests.client import database
from cloud.guests.client import ledger
from cloud.guests.client import pinger
from cloud.guests.client import service
from cloud.guests.client import workload


class LedgerTestCase(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'ledger')

    def test_journal_continues_after_its_last_line(self) -> None:
        for number in (1, 2):
            with ledger.Ledger(self.path) as log:
                log.acknowledged(number, 10.5 + number)
        self.assertEqual({1: 11.5, 2: 12.5}, ledger.read(self.path))

    def test_incomplete_line_is_dropped(self) -> None:
        self.path.write_text('1 1.5\n2 2.')
        with ledger.Ledger(self.path) as log:
            log.acknowledged(2, 3)
        self.assertEqual({1: 1.5, 2: 3.0}, ledger.read(self.path))

    def test_missing_journal_is_empty(self) -> None:
        self.assertEqual({}, ledger.read(self.path))


class DifferencesTestCase(testtools.TestCase):

    def _there(self, *numbers: int) -> dict[int, str]:
        return {number: ledger.digest(ledger.payload('a', number, 100)) for number in numbers}

    def test_same(self) -> None:
        self.assertEqual({'missing': [], 'wrong': [], 'unacknowledged': []},
                         ledger.differences({1: 1.0, 2: 2.0}, self._there(1, 2), 'a', 100))

    def test_differs(self) -> None:
        there = {**self._there(1, 4), 2: 'x'}
        self.assertEqual({'missing': [3], 'wrong': [2], 'unacknowledged': [4]},
                         ledger.differences({1: 1.0, 2: 2.0, 3: 3.0}, there, 'a', 100))

    def test_payload(self) -> None:
        self.assertEqual(100, len(ledger.payload('a', 1, 100)))
        self.assertLess(7000, len(zlib.compress(ledger.payload('a', 1, 10000).encode())))
        self.assertNotEqual(ledger.payload('a', 1, 100), ledger.payload('b', 1, 100))


class RecordTestCase(testtools.TestCase):

    def test_outage(self) -> None:
        record = service.Record(0.5)
        self.assertIsNone(record.answered(10.0, 0.001))
        self.assertIsNone(record.answered(10.4, 0.002))
        for error in ('refused', 'refused', 'no answer'):
            record.failed(error)
        self.assertEqual(service.Outage(10.4, 12.0, ('refused', 'no answer')),
                         record.answered(12.0, 0.003))
        summary = record.summary()
        self.assertEqual({'10': 2, '11': 0, '12': 1}, summary['per_second'])
        self.assertEqual([1.6], [outage['seconds'] for outage in summary['outages']])
        self.assertEqual(2.0, summary['latency_ms']['p50'])

    def test_nothing(self) -> None:
        summary = service.Record().summary()
        self.assertEqual((0, {}, {}), (summary['answers'], summary['per_second'],
                                       summary['latency_ms']))

    def test_still_out(self) -> None:
        record = service.Record()
        record.answered(1.0, 0.001)
        record.failed('no answer')
        self.assertEqual(['no answer'], record.summary()['unanswered_since'])


class _Server:
    """A fake database that loses its connections now and then."""

    def __init__(self, *fails: int) -> None:
        self.rows: dict[int, str] = {}
        self.statements = 0
        self._fails = fails

    def run(self, statement: str, values: tuple[object, ...]) -> list[tuple[str]]:
        self.statements += 1
        if statement.startswith('INSERT'):
            self.rows.setdefault(int(str(values[1])), str(values[3]))
        if self.statements in self._fails:
            raise database.Error('no answer')
        return [(self.rows[int(str(values[1]))],)] if statement.startswith('SELECT') else []

    def close(self) -> None:
        pass


class WorkloadTestCase(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        log = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'log')
        self.options = workload.Options(
            'address', database.Account('u', 'p', 'd', 1), 'a', log, interval_s=0)
        self.events: list[str] = []

    def _run(self, server: _Server, transactions: int) -> None:
        stop = threading.Event()
        work = workload.Workload(self.options, lambda event, _more: self.events.append(event))
        acknowledged = ledger.Ledger.acknowledged

        def noting(log: ledger.Ledger, number: int, at: float) -> None:
            acknowledged(log, number, at)
            if len(ledger.read(self.options.log)) == transactions:
                stop.set()
        # A clock of its own: a slow machine is no outage.
        with mock.patch.object(database, 'Connection', return_value=server), \
                mock.patch.object(ledger.Ledger, 'acknowledged', noting), \
                mock.patch.object(clock, 'now', itertools.count(0.0, 0.001).__next__):
            work.run(stop)

    def test_transaction_of_unknown_outcome_is_repeated(self) -> None:
        server = _Server(3, 4)
        self._run(server, 3)
        self.assertEqual([1, 2, 3], sorted(ledger.read(self.options.log)))
        self.assertEqual([1, 2, 3], sorted(server.rows))
        self.assertEqual(['connected', 'failed', 'connected', 'connected'], self.events)

    def test_restarted_client_continues_with_the_next_number(self) -> None:
        self.options.log.write_text('7 1.0\n')
        self._run(_Server(), 2)
        self.assertEqual([7, 8], sorted(ledger.read(self.options.log)))

    def test_lost_transaction_is_found(self) -> None:
        server = _Server()
        server.rows[1] = 'something else'
        self.assertRaises(workload.Corrupt, self._run, server, 1)


class CallersTestCase(testtools.TestCase):

    def test_user_who_is_refused_tries_again_until_served(self) -> None:
        stop = threading.Event()
        answers = iter([ConnectionRefusedError, database.Error, None])
        events: list[tuple[str, object]] = []

        def call() -> None:
            if (error := next(answers)) is not None:
                raise error

        def tell(*event: object) -> None:
            events.append((str(event[0]), event[1]))
            if event[0] == 'served':
                stop.set()
        with mock.patch.object(callers, '_PAUSE_S', 0.0):
            callers.Callers(call, tell, interval_s=3600.0).run(stop)
        came = events[0][1]
        self.assertEqual([('came', came), ('served', came)], events)

    def test_user_waits_while_others_come(self) -> None:
        stop, held = threading.Event(), threading.Event()
        self.addCleanup(held.set)
        events: list[str] = []

        def tell(event: str, _more: object) -> None:
            events.append(event)
            if len(events) == 3:
                stop.set()

        def call() -> None:
            held.wait()
        callers.Callers(call, tell, interval_s=0.0).run(stop)
        self.assertEqual(['came'] * 3, events)


class PingerTestCase(testtools.TestCase):

    def test_who_answers(self) -> None:
        stop = threading.Event()
        answers = iter([['a'], ['a', 'b'], [], ['b']])
        events: list[tuple[str, object]] = []

        def probe(_timeout: float) -> list[str]:
            try:
                return next(answers)
            except StopIteration:
                stop.set()
                raise OSError('no route') from None
        pings = pinger.Pinger(probe, 0, lambda *event: events.append(event))
        pings.run(stop)
        self.assertEqual({'a': 2, 'b': 2}, pings.talkers)
        self.assertEqual(1, pings.doubles)
        self.assertEqual([('talker', {'who': 'a', 'before': None}),
                          ('talker', {'who': 'b', 'before': 'a'}),
                          ('double', {'answers': 2})],
                         [event for event in events if event[0] != 'outage'])
