# SPDX-License-Identifier: Apache-2.0
"""The processes of a sweep return every version or an error, and never outlive the sweep."""

import os
import signal
import subprocess
import sys
import threading
from typing import Any
from unittest import mock

import ddt
import testtools

from specreds_cinder.superposition import cluster as ceph
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import sweep_process
from specreds_cinder.superposition import sweep_processes
from specreds_cinder.tests.unit import fakes

# Only a test that hangs waits this long.
_TIMEOUT = 60
_VOLUME = fakes.volume(data_prefix='rbd_data.2b', namespace='ns')
# A process of a sweep without Ceph. It runs a line for each batch of objects; the line puts the
# answer into "value".
_PROCESS = """\
import json, os, signal, sys, time
def answer(**message):
    print(json.dumps(message), flush=True)
arguments = json.loads(sys.stdin.readline())
answer(value={{'form': arguments['form']}})
for line in sys.stdin:
    numbers = json.loads(line)['numbers']
    value = [10 * number for number in numbers]
    {line}
    answer(value=value)
{end}
"""


def _command(line: str = 'pass', script: str = _PROCESS, end: str = '') -> tuple[str, ...]:
    """Return the command of a process of a sweep without Ceph.

    :param end: line that runs once there are no requests any more
    """
    return ('setpriv', '--pdeathsig', 'KILL', sys.executable, '-c',
            script.format(line=line, end=end))


@ddt.ddt
class ProcessesTest(testtools.TestCase):
    """Real processes with the requests and answers of a sweep, but without Ceph."""

    def processes(self, *command: str, timeout: float = _TIMEOUT) -> sweep_processes.Processes:
        self.patch(sweep_process, 'COMMAND', command)
        return sweep_processes.Processes(ceph.Cluster(timeout=timeout), 2, 1 << 20)

    def stat(self, processes: sweep_processes.Processes, batches: int = 9) -> list[Any]:
        return list(processes.versions(_VOLUME, ([number, number + 1]
                                                 for number in range(batches))))

    def assert_ended(self, processes: sweep_processes.Processes) -> None:
        sweep_processes.wait_ended()
        self.assertNotIn(None, [process._popen.returncode for process in processes._processes])

    def test_versions_are_in_the_order_of_the_objects(self) -> None:
        # The first batch takes longer than those after it.
        slow = 'time.sleep(0.1 if numbers[0] == 0 else 0)'
        with self.processes(*_command(slow)) as processes:
            self.assertEqual([([number, number + 1], [10 * number, 10 * number + 10])
                              for number in range(9)], self.stat(processes))
            self.assertEqual([], self.stat(processes, 0))
        self.assert_ended(processes)

    def test_each_process_has_a_share(self) -> None:
        with self.processes(*_command('value = [os.getpid()] * 2')) as processes:
            pids = {versions[0] for _numbers, versions in self.stat(processes)}
            self.assertEqual({process._popen.pid for process in processes._processes}, pids)

    def test_process_that_ends_is_lost(self) -> None:
        line = 'os.kill(os.getpid(), signal.SIGKILL) if numbers[0] == 5 else None'
        with self.processes(*_command(line)) as processes:
            error = self.assertRaises(sweep_process.ProcessLost, self.stat, processes)
        self.assertIn('ended with status -9', str(error))
        # Each program has a setting of its own.
        self.assertIn('[specreds] sweep_processes = 1 in the cinder.conf', str(error))
        self.assertIn('--sweep-processes 1 of specreds-super', str(error))
        self.assert_ended(processes)

    def test_process_that_ends_within_an_answer_is_lost(self) -> None:
        line = "print('{{\"value\": [1, 2]}}', end='', flush=True); os._exit(0)"
        with self.processes(*_command(line)) as processes:
            self.assertRaises(sweep_process.ProcessLost, self.stat, processes)

    def test_process_that_hangs_fails_the_sweep(self) -> None:
        with self.processes(*_command('time.sleep(3600)'), timeout=0.01) as processes:
            error = self.assertRaises(errors.ClusterTimeout, self.stat, processes)
        self.assertIn('--sweep-processes 1 of specreds-super', str(error))
        self.assert_ended(processes)

    def test_process_that_reads_no_request_fails_the_sweep(self) -> None:
        script = _PROCESS.replace('for line', 'time.sleep(3600)\nfor line')
        with self.processes(*_command(script=script), timeout=0.01) as processes:
            # More than fits into a pipe.
            self.assertRaises(errors.ClusterTimeout, list, processes.versions(
                _VOLUME, [[0] * (1 << 17)] * 2))
        self.assert_ended(processes)

    def test_error_keeps_its_kind_and_message(self) -> None:
        for kind in ('ClusterTimeout', 'ClusterError'):
            line = f"answer(error='{kind}', message='stat failed')"
            with self.processes(*_command(line)) as processes:
                error = self.assertRaises(errors.ClusterError, self.stat, processes)
            self.assertEqual((kind, 'stat failed'), (type(error).__name__, str(error)))

    def test_process_that_has_failed_answers_nothing_else(self) -> None:
        line = "answer(error='ClusterTimeout', message='') if numbers == [0] else None"
        with self.processes(*_command(line)) as processes:
            self.assertRaises(errors.ClusterTimeout, list, processes.versions(_VOLUME, [[0]]))
            error = self.assertRaises(errors.ClusterError, list,
                                      processes.versions(_VOLUME, [[4], [5]]))
        self.assertIn('has failed before', str(error))

    def test_missing_version_fails_the_sweep(self) -> None:
        with self.processes(*_command('value.pop()')) as processes:
            self.assertRaises(errors.ClusterError, self.stat, processes)

    @ddt.data(None, 5, '45', {}, [1.5, 2], [True, 2], ['1', 2], [-1, 2], [1 << 64, 2])
    def test_answer_without_versions_fails_the_sweep(self, answer: object) -> None:
        self.patch(sweep_process, 'Process', mock.Mock(
            **{'return_value.ask.return_value': answer}))
        with self.processes() as processes:
            error = self.assertRaises(errors.ClusterError, self.stat, processes)
        self.assertNotIsInstance(error, sweep_process.ProcessLost)
        self.assertIn('something else than a list of versions', str(error))

    @ddt.data((2, 1024), (3, 682), (8, 256), (16, 128), (64, 128))
    @ddt.unpack
    def test_stats_in_flight_are_shared(self, count: int, depth: int) -> None:
        made = mock.Mock()
        self.patch(sweep_process, 'Process', made)
        with sweep_processes.Processes(ceph.Cluster(), count, 1024):
            pass
        self.assertEqual([depth] * count,
                         [call.args[0]['depth'] for call in made.call_args_list])

    def test_process_ends_by_itself_after_a_sweep(self) -> None:
        with self.processes(*_command(end='os._exit(7)')) as processes:
            self.stat(processes)
        self.assert_ended(processes)
        self.assertEqual([7, 7], [process._popen.returncode for process in processes._processes])

    def test_process_that_does_not_end_is_killed(self) -> None:
        self.patch(sweep_process, 'END_S', 0.01)
        with self.processes(*_command(end='time.sleep(3600)')) as processes:
            self.stat(processes)
        self.assert_ended(processes)

    def test_end_of_the_processes_does_not_hold_up_the_verdict(self) -> None:
        self.patch(sweep_process, 'END_S', _TIMEOUT)
        with self.processes(*_command(end='time.sleep(3600)')) as processes:
            self.stat(processes)
        self.assertEqual([None, None], [process._popen.poll() for process in processes._processes])
        for process in processes._processes:
            process.kill()
        self.assert_ended(processes)

    def test_processes_are_killed_if_no_thread_can_end_them(self) -> None:
        with self.processes(*_command(end='time.sleep(3600)')) as processes:
            self.stat(processes)
            self.patch(threading.Thread, 'start', mock.Mock(side_effect=RuntimeError('no thread')))
        self.assert_ended(processes)

    def test_abandoned_sweep_does_not_wait_for_its_objects(self) -> None:
        self.patch(sweep_process, 'END_S', 0.01)
        line = 'time.sleep(3600 if numbers[0] else 0)'
        with self.processes(*_command(line)) as processes:
            for answer in processes.versions(_VOLUME, [[number] for number in range(9)]):
                self.assertEqual(([0], [0]), answer)
                break
        self.assert_ended(processes)

    def test_process_that_does_not_become_ready_is_an_error(self) -> None:
        self.patch(sweep_processes, '_START_S', 0)
        processes = self.processes(*_command(script='import time; time.sleep(3600)'),
                                   timeout=0.01)
        error = self.assertRaises(errors.ClusterTimeout, processes.__enter__)
        # They have one limit together.
        self.assertIn('2 of 2 processes of the sweep were not ready within 0 s', str(error))
        self.assert_ended(processes)

    def test_missing_thread_is_an_error(self) -> None:
        processes = self.processes(*_command())
        with mock.patch.object(threading.Thread, 'start', side_effect=RuntimeError('no thread')):
            error = self.assertRaises(errors.ClusterError, processes.__enter__)
        self.assertIn('no thread', str(error))
        self.assert_ended(processes)

    def test_process_that_cannot_connect_is_an_error(self) -> None:
        processes = self.processes(*_command(script=_PROCESS.replace(
            "value={{'form': arguments['form']}}", "error='ClusterError', message='no keyring'")))
        error = self.assertRaises(errors.ClusterError, processes.__enter__)
        self.assertEqual('no keyring', str(error))
        self.assert_ended(processes)

    def test_missing_program_is_named(self) -> None:
        processes = self.processes('no-such-program')
        error = self.assertRaises(errors.ClusterError, processes.__enter__)
        self.assertIn('no-such-program', str(error))

    def test_processes_die_with_their_parent(self) -> None:
        # They have the standard error of the parent, and neither read nor write.
        script = _PROCESS.replace('for line', 'time.sleep(3600)\nfor line')
        parent = subprocess.Popen([sys.executable, '-c', f"""\
import time
from specreds_cinder.superposition import cluster
from specreds_cinder.superposition import sweep_process
from specreds_cinder.superposition import sweep_processes
sweep_process.COMMAND = {_command(script=script)!r}
with sweep_processes.Processes(cluster.Cluster(), 2, 4):
    print('ready', flush=True)
    time.sleep(3600)
"""], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(parent.wait)
        self.addCleanup(parent.kill)
        assert parent.stdout is not None
        self.assertEqual(b'ready\n', parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
        # The pipe ends with the last process that can write to it.
        parent.communicate(timeout=_TIMEOUT)
