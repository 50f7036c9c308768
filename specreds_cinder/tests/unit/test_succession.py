# SPDX-License-Identifier: Apache-2.0
"""A promoted superposition and its successor, by their records."""

from collections.abc import Callable
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

_LABEL = {'handed_at': 'now'}


class Store:
    """Records in memory.

    :ivar meanwhile: called once before the next swap
    """

    def __init__(self, *stored: records.Record) -> None:
        self.stored = {record.id: record for record in stored}
        self.meanwhile: Callable[[], object] | None = None

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

    def swap(self, old: records.Record, new: records.Record) -> records.Record:
        """Replace a record, unless it was changed."""
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        if self.read(old.id, old.home).version != old.version:
            raise errors.RecordChanged(f'superposition {old.id} was changed')
        self.stored[old.id] = dataclasses.replace(new, version=old.version + 1)
        return self.stored[old.id]


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

    def test_connection_that_is_handed_out_is_no_obstacle_to_a_successor(self) -> None:
        self.store.meanwhile = lambda: self.store.change(self.first, labels=_LABEL)
        self.protocol._be_succeeded(self.first, 's2')
        stored = self.store.stored['s1']
        self.assertEqual(('s2', _LABEL), (stored.successor, stored.labels))

    @ddt.data({'state': states.MERGING}, {'successor': 's3'},
              {'fenced': ('10.0.0.1:0/1', '10.0.0.2:0/2')})
    def test_any_other_change_is(self, changes: dict[str, Any]) -> None:
        self.store.meanwhile = lambda: self.store.change(self.first, **changes)
        self.assertRaises(errors.RecordChanged, self.protocol._be_succeeded, self.first, 's2')
        self.assertEqual(changes.get('successor'), self.store.stored['s1'].successor)

    def test_merge_after_a_connection_was_handed_out_is_not_overtaken(self) -> None:
        def change() -> None:
            self.store.change(self.first, labels=_LABEL)
            self.store.meanwhile = lambda: self.store.change(self.first, state=states.MERGING)
        self.store.meanwhile = change
        self.assertRaises(errors.RecordChanged, self.protocol._be_succeeded, self.first, 's2')
        self.assertEqual(states.MERGING, self.store.stored['s1'].state)
