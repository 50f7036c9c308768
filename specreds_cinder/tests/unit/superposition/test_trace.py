# SPDX-License-Identifier: Apache-2.0
"""Events before and after a change reach observers in the thread of the change."""

import threading

import testtools

from specreds_cinder.superposition import trace


class TraceTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.events: list[trace.Event] = []

    def fail_inside(self) -> None:
        with trace.change('fails', 'object'):
            raise RuntimeError

    def test_events_come_before_and_after_a_change(self) -> None:
        with trace.observe(self.events.append):
            with trace.change('record.create', 'object'):
                self.assertEqual(1, len(self.events))
            with trace.span('sweep', 'id'):
                pass
        with trace.change('unseen', 'object'):
            pass
        self.assertEqual([('change', 'record.create', 'object', 'before'),
                          ('change', 'record.create', 'object', 'after'),
                          ('span', 'sweep', 'id', 'before'), ('span', 'sweep', 'id', 'after')],
                         [(event.kind, event.name, event.target, event.phase)
                          for event in self.events])
        times = [event.at for event in self.events]
        self.assertEqual(sorted(times), times)

    def test_failed_change_has_no_event_after_it(self) -> None:
        with trace.observe(self.events.append):
            self.assertRaises(RuntimeError, self.fail_inside)
        self.assertEqual(['before'], [event.phase for event in self.events])

    def test_observer_can_prevent_the_change(self) -> None:
        def refuse(_event: trace.Event) -> None:
            raise RuntimeError
        done = []

        def work() -> None:
            with trace.change('x', 'y'):
                done.append(1)
        with trace.observe(refuse):
            self.assertRaises(RuntimeError, work)
        self.assertEqual([], done)
        work()
        self.assertEqual([1], done)

    def test_observer_runs_in_the_thread_of_the_change(self) -> None:
        threads = []
        with trace.observe(lambda _event: threads.append(threading.current_thread())), \
                trace.change('x', 'y'):
            pass
        self.assertEqual([threading.current_thread()] * 2, threads)
