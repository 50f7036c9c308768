# SPDX-License-Identifier: Apache-2.0
"""The mode of a host, of all modes that are set."""

from typing import Any
from unittest import mock

import ddt

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine import modes
from specreds_nova.tests.unit.engine.store import base

_PLACES = ('availability zone z1', 'aggregate db', 'aggregate ssd')


@ddt.ddt
class ModesTest(base.StoreTest):

    def setUp(self) -> None:
        super().setUp()
        self.places: tuple[str, ...] | None = _PLACES
        self.modes = modes.Modes(self.clock, self.store, lambda host: self.places)

    def set(self, mode: str, scope: str = model.CLOUD, name: str = '',
            lasts: float | None = None) -> None:
        """Set a mode, which engines have read a moment later."""
        now = self.clock.wall()
        self.store.set_mode(model.Mode(scope, name, mode, 'a test', 'u1', now,
                                       None if lasts is None else now + lasts))
        self.clock.sleep(modes.FRESH)

    def test_new_installation_observes(self) -> None:
        self.assertEqual(model.OBSERVE, self.modes.of('node1'))

    def test_most_specific_mode_counts(self) -> None:
        for scope, name, mode in ((model.CLOUD, '', model.PAUSE), (model.ZONE, 'z1', model.ACT),
                                  (model.AGGREGATE, 'db', model.OBSERVE),
                                  (model.HOST, 'node1', model.ACT)):
            self.set(mode, scope, name)
            self.assertEqual(mode, self.modes.of('node1'))
        self.assertEqual(model.OBSERVE, self.modes.of('node2'))
        self.places = ('availability zone z2',)
        self.assertEqual(model.PAUSE, self.modes.of('node2'))

    @ddt.data((model.ACT, model.PAUSE), (model.PAUSE, model.ACT))
    @ddt.unpack
    def test_least_consequence_of_several_aggregates_counts(self, db: str, ssd: str) -> None:
        self.set(model.ACT)
        self.set(db, model.AGGREGATE, 'db')
        self.set(ssd, model.AGGREGATE, 'ssd')
        self.assertEqual(model.PAUSE, self.modes.of('node1'))

    def test_mode_ends_by_itself(self) -> None:
        self.set(model.ACT)
        self.set(model.PAUSE, lasts=10.0)
        self.assertEqual(model.PAUSE, self.modes.of('node1'))
        self.set(model.OBSERVE, lasts=20.0)
        self.assertEqual(model.OBSERVE, self.modes.of('node1'))
        self.clock.sleep(20.0)
        self.assertEqual(model.ACT, self.modes.of('node1'))

    def test_lasting_mode_ends_the_brief_one(self) -> None:
        self.set(model.PAUSE, lasts=10.0)
        self.set(model.ACT)
        self.assertEqual(model.ACT, self.modes.of('node1'))

    def test_mode_that_is_removed_leaves_the_next_one(self) -> None:
        self.set(model.ACT)
        self.set(model.PAUSE, model.HOST, 'node1')
        self.set(model.OBSERVE, model.HOST, 'node1', lasts=10.0)
        self.assertTrue(self.store.unset_mode(model.HOST, 'node1'))
        self.assertFalse(self.store.unset_mode(model.HOST, 'node1'))
        self.clock.sleep(modes.FRESH)
        self.assertEqual(model.ACT, self.modes.of('node1'))

    def test_mode_of_a_host_in_an_unknown_zone_is_unknown(self) -> None:
        self.set(model.ACT)
        self.set(model.PAUSE, model.ZONE, 'z2')
        self.places = None
        self.assertRaises(exception.Unreachable, self.modes.of, 'node1')
        self.set(model.ACT, model.HOST, 'node1')
        self.assertEqual(model.ACT, self.modes.of('node1'))

    @ddt.data((model.ACT, model.PAUSE, model.PAUSE), (model.PAUSE, model.ACT, model.PAUSE),
              (model.ACT, model.ACT, model.ACT), (None, model.ACT, model.OBSERVE))
    @ddt.unpack
    def test_least_consequence_counts_for_a_host_that_nova_lists_no_more(
            self, cloud: str | None, zone: str, wanted: str) -> None:
        if cloud is not None:
            self.set(cloud)
        self.set(zone, model.ZONE, 'z2')
        self.places = ()
        self.assertEqual(wanted, self.modes.of('node1'))

    def test_former_reading_is_not_used_for_longer(self) -> None:
        self.set(model.ACT)
        self.assertEqual(model.ACT, self.modes.of('node1'))
        with self.statements() as executed:
            self.assertEqual(model.ACT, self.modes.of('node1'))
            self.assertEqual([], executed)
            self.clock.sleep(modes.FRESH)
            self.modes.of('node1')
            self.assertEqual(['SELECT'], executed)

    def test_one_reads_while_the_others_rely_on_the_reading_before(self) -> None:
        self.set(model.ACT)
        self.modes.of('node1')
        read, meanwhile = self.store.modes, list[str]()

        def reading() -> Any:
            meanwhile.append(self.modes.of('node1'))
            return read()
        self.clock.sleep(modes.FRESH / 2)
        with mock.patch.object(self.store, 'modes', reading):
            self.modes.of('node1')
        self.assertEqual([model.ACT], meanwhile)
