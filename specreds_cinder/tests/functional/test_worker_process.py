# SPDX-License-Identifier: Apache-2.0
"""The worker's process: its death, its log, its sockets, and eventlet."""

from collections.abc import Callable
import contextlib
import glob
import json
import multiprocessing
from multiprocessing import managers
import os
import pathlib
import signal
import subprocess
import sys
import threading
from typing import Any

from cinder import context

from specreds_cinder import exception
from specreds_cinder.tests.functional import worker_base

_SECONDS = 60
# A flag in /proc/net/unix
_ACCEPTING = 0x10000


class ProcessTest(worker_base.WorkerTestCase):

    def test_killed_worker_is_started_again(self) -> None:
        image = self.make_volume().image
        superposition = self.super(image)
        before = self.process()
        os.kill(before, signal.SIGKILL)
        with contextlib.suppress(exception.SuperpositionUnavailable):
            # The call may notice the death, or start another process.
            self.ask('ping')
        self.assertEqual(superposition, self.ask('find', image=image)['id'])
        self.assertNotEqual(before, self.process())

    def test_calls_fail_when_the_worker_is_killed(self) -> None:
        errors: list[exception.SuperpositionError] = []
        pid = self.process()
        asking = threading.Barrier(4)

        def wait() -> None:
            asking.wait()
            try:
                self.ask('next_dirty', timeout=_SECONDS)
            except exception.SuperpositionError as exc:
                errors.append(exc)
        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        asking.wait()
        self.until(lambda: _connections(pid) >= 3)
        # Other calls do not wait for them.
        self.ask('list')
        os.kill(pid, signal.SIGKILL)
        for thread in threads:
            thread.join(_SECONDS)
        self.assertEqual([exception.SuperpositionUnavailable] * 3,
                         [type(error) for error in errors])
        self.assertIn(f'pool {self.pool} died during next_dirty', errors[0].msg)
        after = self.process()
        self.assertNotEqual(pid, after)
        self.assertEqual(after, self.process())

    def test_concurrent_calls_have_their_own_answers(self) -> None:
        images = [self.make_volume(objects=1).image for _ in range(4)]
        made = [self.super(image) for image in images]
        answers: dict[str, Any] = {}

        def look(image: str) -> None:
            for _ in range(5):
                answers[image] = self.ask('find', image=image)['id']
        threads = [threading.Thread(target=look, args=(image,)) for image in images]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_SECONDS)
        self.assertEqual(dict(zip(images, made, strict=True)), answers)

    def test_stopped_worker_leaves_nothing(self) -> None:
        pid = self.process()
        # The socket has no file, so that nothing is left however the process ends.
        (path,) = _listening(pid)
        self.assertTrue(path.startswith('@specreds-'), path)
        self.worker.stop()
        self.assertFalse(os.path.exists(f'/proc/{pid}'))
        self.worker.stop()

    def test_client_without_the_key_is_refused(self) -> None:
        (path,) = _listening(self.process())
        address = path.replace('@', '\0', 1)
        for key in (b'', b'guessed'):
            stranger = managers.BaseManager(address=address, authkey=key)
            self.assertRaises(multiprocessing.AuthenticationError, stranger.connect)
        self.ask('ping')

    def test_command_line_has_no_secret(self) -> None:
        pid = self.process()
        command = pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().split(b'\0')
        self.assertEqual([b'-P', b'-m', b'specreds_cinder.service.worker.server', b''],
                         command[1:])

    def test_worker_ends_with_its_service(self) -> None:
        program = (
            'import json, sys, time\n'
            'from oslo_config import cfg\n'
            'from oslo_log import log\n'
            'from specreds_cinder.service.worker import client\n'
            'log.register_options(cfg.CONF)\n'
            'cfg.CONF([])\n'
            'worker = client.Worker(json.loads(sys.argv[1]), sys.argv[2], {}, watch=True)\n'
            'worker.call(None, "ping")\n'
            'print(worker._process.popen.pid, flush=True)\n'
            'time.sleep(1000)\n')
        service = subprocess.Popen(
            [sys.executable, '-c', program, json.dumps(
                {'conffile': str(self.ceph.conf), 'user': 'cinder'}), self.pool],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.addCleanup(service.wait)
        self.addCleanup(service.kill)
        assert service.stdout is not None
        pid = int(service.stdout.readline())
        self.assertEqual(1, len(_listening(pid)))
        self.assertTrue(os.path.exists(f'/proc/{pid}'))
        service.kill()
        service.wait()
        service.stdout.close()
        self.until(lambda: not os.path.exists(f'/proc/{pid}/exe'))

    def until(self, met: Callable[[], bool]) -> None:
        """Wait until a condition is met."""
        waiting = threading.Event()
        for _ in range(_SECONDS * 10):
            if met():
                return
            waiting.wait(0.1)
        self.fail('the condition is not met')


class LogTest(worker_base.WorkerTestCase):

    def test_log_has_request_and_project(self) -> None:
        image = self.make_volume().image
        superposition = self.super(image)
        (line,) = [line for line in self.log.read_text().splitlines()
                   if f'superposition {superposition} of' in line]
        self.assertIn('req-0f9c', line)
        self.assertIn('project-1', line)
        self.context = context.RequestContext('user-2', 'project-2', is_admin=False,
                                              request_id='req-1a2b')
        self.ask('collapse', superposition=superposition, durable=False)
        (line,) = [line for line in self.log.read_text().splitlines()
                   if f'superposition {superposition} is promoted' in line]
        self.assertIn('req-1a2b', line)
        self.assertNotIn('req-0f9c', line)


class EventletTest(worker_base.WorkerTestCase):
    """In a volume service on green threads, calls block neither each other nor other threads."""

    def test_calls_do_not_block_green_threads(self) -> None:
        first, second = (self.make_volume().image for _ in range(2))
        program = str(pathlib.Path(__file__).with_name('green.py'))
        environment = {name: value for name, value in os.environ.items()
                       if name != 'OS_CINDER_DISABLE_EVENTLET_PATCHING'}
        done = subprocess.run(
            [sys.executable, program, str(self.ceph.conf), self.pool, first, second],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * _SECONDS,
            env=environment)
        self.assertEqual(0, done.returncode, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(['promoted', 'promoted'], report['outcomes'])
        self.assertEqual('SuperpositionUnavailable', report['killed'])
        self.assertEqual(2, report['after'])
        # A green thread ran while three calls waited for three seconds.
        self.assertGreater(report['ticks'], 10)


def _sockets(pid: int) -> set[str]:
    """Return the inodes of the sockets of a process."""
    inodes = set()
    for link in glob.glob(f'/proc/{pid}/fd/*'):
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(link).removeprefix('socket:[').removesuffix(']'))
    return inodes


def _unix(pid: int) -> list[list[str]]:
    """Return the kernel's lines about the UNIX sockets of a process."""
    ours = _sockets(pid)
    lines = pathlib.Path('/proc/net/unix').read_text().splitlines()[1:]
    return [words for words in map(str.split, lines) if words[6] in ours]


def _listening(pid: int) -> list[str]:
    """Return the sockets that a process listens on."""
    return [words[7] for words in _unix(pid) if int(words[3], 16) & _ACCEPTING]


def _connections(pid: int) -> int:
    """Return the number of connections to a process."""
    return len(_unix(pid)) - len(_listening(pid))
