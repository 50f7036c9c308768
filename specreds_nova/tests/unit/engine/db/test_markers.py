# SPDX-License-Identifier: Apache-2.0
"""Markers of servers, in the database."""

from specreds_nova.engine import model
from specreds_nova.tests.unit.engine.db import base

_UP, _ALL_UP = 'web server is up', 'all services are up'


class StoredMarkersTest(base.StoreTest):
    """Markers by server."""

    def test_marker_is_read_with_the_duration(self) -> None:
        for server in ('vm1', 'vm2'):
            self.store.learn(server, 3.0)
        self.store.learn_marker('vm1', _UP)
        self.assertEqual(
            {'vm1': model.Expectation(3.0, _UP), 'vm2': model.Expectation(3.0)},
            self.store.expected(['vm1', 'vm2', 'vm3']))

    def test_later_marker_replaces_an_earlier_one(self) -> None:
        self.store.learn_marker('vm1', _UP)
        self.clock.time += 5.0
        self.store.learn_marker('vm1', _ALL_UP)
        self.assertEqual([model.Marker('vm1', _ALL_UP, self.clock.time)], self.store.markers())

    def test_markers_of_servers_are_forgotten(self) -> None:
        for server in ('vm2', 'vm1', 'vm3'):
            self.store.learn_marker(server, _UP)
        self.assertEqual(2, self.store.forget_markers(['vm1', 'vm3', 'vm9']))
        self.assertEqual(['vm2'], [marker.server for marker in self.store.markers()])

    def test_old_markers_are_removed(self) -> None:
        self.store.learn_marker('vm1', _UP)
        self.clock.time += 5.0
        self.store.learn_marker('vm2', _UP)
        self.assertEqual(1, self.store.prune_markers(self.clock.time))
        self.assertEqual(['vm2'], [marker.server for marker in self.store.markers()])

    def test_recovery_keeps_the_marker_that_it_expects(self) -> None:
        recovery = self.created(expected_marker=_UP)
        stored = self.store.get(recovery.id)
        self.assertEqual(_UP, stored and stored.expected_marker)
