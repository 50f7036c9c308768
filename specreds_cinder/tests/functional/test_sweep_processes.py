# SPDX-License-Identifier: Apache-2.0
"""A sweep with two processes finds what one without processes finds, or fails."""

from collections.abc import Callable, Iterable, Iterator, Sequence
import os
import pathlib
import signal
from unittest import mock

import ddt
import fixtures

from specreds_cinder import superposition as sp
from specreds_cinder.superposition import cluster as ceph
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import states
from specreds_cinder.superposition import sweep
from specreds_cinder.superposition import sweep_process
from specreds_cinder.superposition import sweep_processes
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import protocol_base

OBJECT = 4 * base.MIB
_OBJECTS = 8
_SECONDS = 3


class SweepProcessesTestCase(protocol_base.ProtocolTestCase):
    """A superposed volume, of whose objects each of two processes has four, and its primary."""

    settings = sp.Settings(merge_bytes_per_second=0, sweep_processes=2,
                           sweep_objects_per_process=1)

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.patch(sweep, '_BATCH', _OBJECTS // 2)
        # On a busy machine they take long to start, and a sweep does without them then.
        self.patch(sweep_processes, '_START_S', 120.0)
        # For each sweep, the process of each request, in the order of the requests.
        self.shares: list[list[int]] = []
        ask = sweep_process.Process.ask

        def noted(process: sweep_process.Process, request: object) -> object:
            self.shares[-1].append(process._popen.pid)
            return ask(process, request)
        self.patch(sweep_process.Process, 'ask', noted)
        enter = sweep_processes.Processes.__enter__

        def entered(processes: sweep_processes.Processes) -> sweep_processes.Processes:
            self.shares.append([])
            return enter(processes)
        self.patch(sweep_processes.Processes, '__enter__', entered)
        self.volume = self.make_volume(_OBJECTS)
        self.primary = self.make_primary(self.volume)
        self.record = self.superpose(self.volume)

    def by_itself(self) -> sp.SweepReport:
        """Sweep without processes."""
        return sweep.Sweeper(self.cluster, self.record, thorough=True).run()

    def assert_shared(self, sweeps: int) -> None:
        """Assert that each sweep had two processes, each of which had a share and has ended."""
        self.assertEqual([2] * sweeps, [len(set(pids)) for pids in self.shares])
        self.assert_ended()

    def assert_ended(self) -> None:
        """Assert that no process of a sweep is left."""
        sweep_processes.wait_ended()
        for pid in {pid for pids in self.shares for pid in pids}:
            self.assertFalse(pathlib.Path('/proc', str(pid)).exists())


@ddt.ddt
class VerdictTest(SweepProcessesTestCase):

    def test_volume_as_old_as_the_cut_is_clean(self) -> None:
        report = self.protocol.check(self.record)
        self.assertEqual((False, None, _OBJECTS), (report.dirty, report.first, report.objects))
        self.assertFalse(self.by_itself().dirty)
        self.assert_shared(1)

    @ddt.data(0, 3, 4, 7)
    def test_write_to_the_share_of_either_process_is_dirty(self, number: int) -> None:
        self.assertEqual(0, self.primary.write(number * OBJECT))
        report = self.protocol.check(self.record)
        self.assertTrue(report.dirty)
        self.assertIn(f'.{number:016x} of {self.volume}', report.first or '')
        self.assertEqual(self.by_itself().first, report.first)
        self.assert_shared(1)

    def test_discard_is_dirty(self) -> None:
        self.assertEqual(0, self.primary.ask('discard', offset=5 * OBJECT, length=OBJECT))
        report = self.protocol.check(self.record)
        self.assertTrue(report.dirty)
        self.assertEqual(self.by_itself().first, report.first)

    def test_silent_primary_is_fenced_and_swept_again(self) -> None:
        self.assertEqual('promoted', self.protocol.collapse(self.record).outcome)
        self.assertEqual(protocol_base.DEAD, self.primary.write(6 * OBJECT))
        self.assert_shared(2)

    @ddt.data(1, 6)
    def test_write_before_the_fence_is_late_dirty(self, number: int) -> None:
        def write() -> None:
            self.assertEqual(0, self.primary.write(number * OBJECT, 0x4c))
        with sp.trace.observe(self.at('fence', 'before', write)):
            report = self.protocol.collapse(self.record)
        self.assertEqual('late-dirty', report.outcome)
        assert report.sweep2 is not None
        # The sweep behind the fence examines the shares of both processes whatever it finds.
        self.assertEqual(_OBJECTS, report.sweep2.objects)
        self.assertEqual(protocol_base.DEAD, self.primary.write(number * OBJECT))
        self.assert_shared(2)
        self.assert_nothing_left(self.record)


@ddt.ddt
class FailureTest(SweepProcessesTestCase):

    def disturb(self, work: Callable[[sweep_processes.Processes], None], sweeps: int) -> None:
        """Run a function after a number of sweeps, at the beginning of the next one."""
        versions = sweep_processes.Processes.versions

        def disturbed(processes: sweep_processes.Processes, volume: records.Volume,
                      batches: Iterable[Sequence[int]]
                      ) -> Iterator[tuple[Sequence[int], list[int]]]:
            if len(self.shares) == sweeps + 1:
                work(processes)
            return versions(processes, volume, batches)
        self.patch(sweep_processes.Processes, 'versions', disturbed)

    def signal(self, index: int, number: int) -> Callable[[sweep_processes.Processes], None]:
        """Return a function that sends a signal to one of the processes."""
        return lambda processes: os.kill(processes._processes[index]._popen.pid, number)

    @ddt.data(0, 1)
    def test_sweep_behind_the_fence_does_without_a_killed_process(self, index: int) -> None:
        self.disturb(self.signal(index, signal.SIGKILL), 1)
        report = self.protocol.collapse(self.record)
        self.assertEqual('promoted', report.outcome)
        assert report.sweep2 is not None
        self.assertEqual(_OBJECTS, report.sweep2.objects)
        self.assertIn('ended with status -9', self.log.output)
        self.assertEqual(protocol_base.DEAD, self.primary.write(0))
        # The sweep may notice that one process is gone before it sends a request to the other.
        self.assertEqual(2, len(self.shares))
        self.assert_ended()

    @ddt.data(0, 7)
    def test_write_is_late_dirty_without_a_killed_process(self, number: int) -> None:
        def write() -> None:
            self.assertEqual(0, self.primary.write(number * OBJECT, 0x4c))
        self.disturb(self.signal(0, signal.SIGKILL), 1)
        with sp.trace.observe(self.at('fence', 'before', write)):
            report = self.protocol.collapse(self.record)
        self.assertEqual('late-dirty', report.outcome)
        assert report.sweep2 is not None
        self.assertEqual(_OBJECTS, report.sweep2.objects)
        self.assertIn(f'.{number:016x} of {self.volume}', report.sweep2.first or '')

    def test_check_does_without_a_killed_process(self) -> None:
        self.disturb(self.signal(0, signal.SIGKILL), 0)
        report = self.protocol.check(self.record)
        self.assertEqual((False, _OBJECTS), (report.dirty, report.objects))
        self.assertIn('ended with status -9', self.log.output)

    def test_process_that_hangs_fails_the_sweep(self) -> None:
        cluster = sp.Cluster(str(self.ceph.conf), 'cinder', timeout=_SECONDS)
        self.addCleanup(cluster.close)
        self.disturb(self.signal(1, signal.SIGSTOP), 0)
        protocol = sp.Protocol(cluster, self.settings)
        self.assertRaises(sp.ClusterTimeout, protocol.check, self.record)
        self.assertEqual(states.SUPERPOSED, self.protocol.reload(self.record).state)

    def test_check_does_without_processes_that_cannot_connect(self) -> None:
        parameters = {**self.cluster.parameters, 'user': 'nobody'}
        with mock.patch.object(ceph.Cluster, 'parameters', parameters):
            report = self.protocol.check(self.record)
        self.assertEqual((False, _OBJECTS), (report.dirty, report.objects))
        self.assertIn('client.nobody', self.log.output)
        self.assertEqual([[]], self.shares)

    def test_processes_leave_no_admin_sockets(self) -> None:
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        conf = directory / 'ceph.conf'
        conf.write_text(f'{self.ceph.conf.read_text()}\n'
                        f'[client]\nadmin socket = {directory}/$pid.asok\n')
        parameters = {**self.cluster.parameters, 'conffile': str(conf)}
        sockets: list[pathlib.Path] = []
        self.disturb(lambda _: sockets.extend(directory.glob('*.asok')), 0)
        with mock.patch.object(ceph.Cluster, 'parameters', parameters):
            self.assertFalse(self.protocol.check(self.record).dirty)
        self.assert_shared(1)
        self.assertEqual(2, len(sockets))
        self.assertEqual([conf], list(directory.iterdir()))
