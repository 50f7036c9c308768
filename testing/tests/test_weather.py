# SPDX-License-Identifier: Apache-2.0
"""The weather of a cluster: every accident ends, also one that fails."""

import signal
import threading
from typing import Any

import testtools

from cloud import layout
from testing.race import weather

_TIMEOUT_S = 60


class Ceph:
    """A cluster that notes what happens to it.

    :param enough: number of events after which a test has seen enough
    """

    def __init__(self, enough: int = 0, monitors: int = 3) -> None:
        self.settings = layout.Settings(monitors=monitors)
        self.events: list[tuple[Any, ...]] = []
        self.seen = threading.Event()
        self._enough = enough

    def note(self, *event: Any) -> None:
        self.events.append(event)
        if len(self.events) >= self._enough:
            self.seen.set()

    def command(self, prefix: str, **words: Any) -> Any:
        self.note(prefix, *words.values())
        return {'osdmap': {'num_up_osds': 3}, 'quorum_names': self.settings.monitor_addresses,
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
                         ceph.events[-3:])

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
