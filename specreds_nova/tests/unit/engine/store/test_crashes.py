# SPDX-License-Identifier: Apache-2.0
"""Crashes that have to wait, in the database."""

from specreds_nova.engine import model
from specreds_nova.tests.unit.engine.store import base

_WHY = ({'kind': 'crash', 'words': 'it has crashed', 'at': 1.0},)


class StoredCrashesTest(base.StoreTest):
    """Crashes of servers by server and host."""

    def test_crash_is_read_back(self) -> None:
        crash = model.Crash('h1', 'a', _WHY, 1.5)
        self.store.keep_crash(crash)
        self.store.keep_crash(crash)
        self.assertEqual([crash], self.store.crashes())

    def test_oldest_crash_is_first(self) -> None:
        crashes = [model.Crash('h1', 'b', _WHY, 1.0), model.Crash('h2', 'b', _WHY, 2.0),
                   model.Crash('h1', 'a', _WHY, 3.0)]
        for crash in reversed(crashes):
            self.store.keep_crash(crash)
        self.assertEqual(crashes, self.store.crashes())

    def test_later_crash_replaces_an_earlier_one(self) -> None:
        first, second = (model.Crash('h1', 'a', _WHY, at) for at in (1.0, 2.0))
        for crash in (first, second, first):
            self.store.keep_crash(crash)
        self.assertEqual([second], self.store.crashes())

    def test_only_crashes_up_to_a_time_are_dropped(self) -> None:
        first, second = (model.Crash('h1', 'a', _WHY, at) for at in (1.0, 2.0))
        self.store.keep_crash(second)
        self.store.drop_crash(first)
        self.assertEqual([second], self.store.crashes())
        self.store.drop_crash(second)
        self.assertEqual([], self.store.crashes())
