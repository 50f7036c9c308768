# SPDX-License-Identifier: Apache-2.0
"""The weather of a cluster: every accident ends, also one that fails."""

import signal
import threading
from typing import Any

import testtools

from cloud import commands
from cloud import layout
from testing.race import weather

_TIMEOUT_S = 60


class Ceph:
    """A cluster that notes what happens to it.

    :param enough: number of events after which a test has seen enough
    """

    def __init__(self, enough: int = 0, monitors: int = 3, osds: int = 3) -> None:
        self.settings = layout.Settings(monitors=monitors, osds=osds)
        self.merged: set[str] = set()
        self.events: list[tuple[Any, ...]] = []
        self.seen = threading.Event()
        self.refuses = False
        self._enough = enough

    def note(self, *event: Any) -> None:
        self.events.append(event)
        if len(self.events) >= self._enough:
            self.seen.set()

    def command(self, prefix: str, **words: Any) -> Any:
        self.note(prefix, *words.values())
        if prefix == 'osd map':
            # Each question after the first one is answered as after a merge.
            name = words['object']
            pgid = '1.0' if name in self.merged else '1.10'
            self.merged.add(name)
            return {'pgid': pgid, 'up': [2, 0, 1]}
        if prefix == 'osd pg-upmap-items' and self.refuses:
            raise commands.CloudError('the placement group does not exist')
        return {'pg_upmap_items': [{'pgid': '1.10'}],
                'osdmap': {'num_up_osds': self.settings.osds},
                'quorum_names': self.settings.monitor_addresses,
                'pgmap': {'num_pgs': 2, 'pgs_by_state': [
                    {'state_name': 'active+clean', 'count': 2}]}}

    def signal_daemon(self, name: str, number: int) -> None:
        self.note(name, number)

    def kill_daemon(self, name: str) -> None:
        self.note(name, 'dead')

    def start_daemon(self, name: str) -> None:
        self.note(name, 'started')


class WeatherTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        for name in ('_PAUSE_S', '_HANG_S', '_DEAD_S'):
            self.patch(weather, name, (0.0, 0.0))

    def test_every_accident_ends(self) -> None:
        ceph: Any = Ceph(enough=200)
        with weather.Weather(ceph, ceph.command, 'volumes', seed=1) as accidents:
            self.assertTrue(ceph.seen.wait(_TIMEOUT_S))
        self.assertTrue(all(accidents.happened.values()), accidents.happened)
        for before, after in ((signal.SIGSTOP, signal.SIGCONT), ('dead', 'started')):
            for daemon in ('osd.0', 'osd.1', 'osd.2', 'mon.a', 'mon.b', 'mon.c'):
                events = [event[1] for event in ceph.events
                       if event[0] == daemon and event[1] in (before, after)]
                self.assertEqual([before, after] * (len(events) // 2), events)
        self.assertEqual([('osd primary-affinity', osd, 1.0) for osd in range(3)],
                         ceph.events[-5:-2])

    def test_error_of_an_accident_is_raised_at_the_end(self) -> None:
        ceph: Any = Ceph()
        ceph.kill_daemon = ceph.signal_daemon = None

        def spoiled() -> None:
            with weather.Weather(ceph, ceph.command, 'volumes', seed=1) as accidents:
                accidents._thread.join(_TIMEOUT_S)
                self.assertRaises(TypeError, accidents.check)
        self.assertRaises(TypeError, spoiled)

    def test_lone_monitor_is_not_killed(self) -> None:
        ceph: Any = Ceph(enough=200, monitors=1)
        with weather.Weather(ceph, ceph.command, 'volumes', seed=1) as accidents:
            self.assertTrue(ceph.seen.wait(_TIMEOUT_S))
        self.assertNotIn(('mon.a', 'dead'), ceph.events)
        self.assertNotIn(weather.Accident.ELECTION, accidents.happened)

    def test_placement_group_moves_from_one_of_its_osds_to_another_one(self) -> None:
        ceph: Any = Ceph(enough=300, osds=4)
        with weather.Weather(ceph, ceph.command, 'volumes', seed=1) as accidents:
            self.assertTrue(ceph.seen.wait(_TIMEOUT_S))
        moves = [event[1:] for event in ceph.events if event[0] == 'osd pg-upmap-items']
        self.assertEqual({('1.10', 0, 3), ('1.10', 1, 3), ('1.10', 2, 3)},
                         {(group, *osds) for group, osds in moves if group == '1.10'})
        self.assertGreater(accidents.happened[weather.Accident.UPMAP], 0)
        self.assertEqual(('osd rm-pg-upmap-items', '1.10'), ceph.events[-1])

    def test_placement_group_that_was_merged_meanwhile_does_not_move(self) -> None:
        ceph: Any = Ceph(osds=4)
        ceph.refuses = True
        accidents = weather.Weather(ceph, ceph.command, 'volumes', seed=1)
        accidents._upmap()
        ceph.merged = _All()
        self.assertRaises(commands.CloudError, accidents._upmap)

    def test_nothing_moves_where_each_group_has_all_osds(self) -> None:
        ceph: Any = Ceph()
        accidents = weather.Weather(ceph, ceph.command, 'volumes', seed=1)
        self.assertNotIn(weather.Accident.UPMAP, accidents.happened)


class _All(set[str]):
    """Contains every name."""

    def __contains__(self, name: object) -> bool:
        return True
