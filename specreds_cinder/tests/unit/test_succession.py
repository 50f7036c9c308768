# SPDX-License-Identifier: Apache-2.0
"""A promoted superposition and its successor, by their records."""

import dataclasses
from typing import Any
from unittest import mock

import ddt
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import states
from specreds_cinder.superposition.protocol import succession
from specreds_cinder.tests.unit import fakes


class Store:
    """Records in memory."""

    def __init__(self, *stored: records.Record) -> None:
        self.stored = {record.id: record for record in stored}

    def index(self, home: records.Home) -> dict[str, Any]:
        """Return all superpositions."""
        return {record.id: mock.Mock(home=home) for record in self.stored.values()}

    def read(self, superposition: str, _home: records.Home) -> records.Record:
        """Return a record."""
        if superposition not in self.stored:
            raise errors.NotSuperposed(f'there is no superposition {superposition}')
        return self.stored[superposition]

    def change(self, record: records.Record, **changes: Any) -> records.Record:
        """Change a record, as another controller does."""
        stored = self.read(record.id, record.home)
        self.stored[record.id] = dataclasses.replace(
            stored, version=stored.version + 1, **changes)
        return self.stored[record.id]


@ddt.ddt
class SuccessionTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.first = fakes.superposition(id='s1', state=states.PROMOTED,
                                         outcome=states.PROMOTED, fenced=('10.0.0.1:0/1',))
        self.store = Store(self.first)
        self.protocol: Any = succession.Succession(mock.Mock())
        self.patch(self.protocol, 'store', self.store)

    def add_second(self, state: str) -> None:
        """Let the first superposition have a successor."""
        self.store.change(self.first, successor='s2')
        self.store.stored['s2'] = fakes.superposition(id='s2', state=state, predecessor='s1')

    def listed(self) -> list[str]:
        """Return the ids of the superpositions that are listed."""
        return [record.id for record in self.protocol.list(self.first.home)]

    @ddt.data(states.CREATING, states.SUPERPOSED, states.COLLAPSING, states.ABORTING)
    def test_predecessor_is_shown_while_its_successor_is_undecided(self, state: str) -> None:
        self.add_second(state)
        self.assertEqual(['s1', 's2'], self.listed())
        self.assertEqual('s1', self.protocol.show('s1', self.first.home).id)

    def test_predecessor_is_not_shown_once_its_successor_is_promoted(self) -> None:
        self.add_second(states.PROMOTED)
        self.assertEqual(['s2'], self.listed())
        error = self.assertRaises(errors.NotSuperposed, self.protocol.show, 's1',
                                  self.first.home)
        self.assertIn('s2', str(error))
        self.assertEqual('s2', self.protocol.show('s2', self.first.home).id)
