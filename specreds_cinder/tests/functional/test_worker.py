# SPDX-License-Identifier: Apache-2.0
"""The process that runs the protocol for a volume service, on a real cluster."""

from collections.abc import Callable
import contextlib
import functools
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
import ddt
import fixtures
from oslo_config import cfg
from oslo_config import fixture as config_fixture
from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import states
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import protocol_base
from specreds_cinder.worker import client

OBJECT = 4 * base.MIB
_SECONDS = 60
# A flag in /proc/net/unix
_ACCEPTING = 0x10000
_NOBODY = '7a3ab2b5-8b0f-4a0c-9a55-3c9a6b8b5a11'


class WorkerTestCase(protocol_base.ProtocolTestCase):

    watching = False

    def setUp(self) -> None:
        super().setUp()
        conf = self.useFixture(config_fixture.Config(cfg.CONF))
        logging.register_options(cfg.CONF)
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.log = self.directory / 'worker.log'
        conf.config(log_file=str(self.log), debug=False)
        self.worker = self.make_worker()
        self.context = context.RequestContext('user-1', 'project-1', is_admin=False,
                                              request_id='req-0f9c')

    def make_worker(self, **cluster: Any) -> client.Worker:
        """Return a worker that ends with the test."""
        made = client.Worker(
            {'conffile': str(self.ceph.conf), 'user': 'cinder', 'timeout': 30, **cluster},
            self.pool, {'merge_bytes_per_second': 0}, watch=self.watching)
        self.addCleanup(made.stop)
        return made

    def ask(self, method: str, **arguments: Any) -> Any:
        """Call the worker for a request."""
        return self.worker.call(self.context, method, **arguments)

    def super(self, *images: str, **changes: Any) -> str:
        """Superpose images, and return the superposition's id."""
        superposition = records.new_id()
        self.addCleanup(self.end, superposition)
        view = self.ask('super', **{
            'superposition': superposition, 'images': list(images), 'reason': 'test',
            'server_id': 'a-server', 'joint': False, 'labels': {'members': ['here']}, **changes})
        self.assertEqual(superposition, view['id'])
        return superposition

    def end(self, superposition: str) -> None:
        """End a superposition in whatever state it is."""
        with contextlib.suppress(exception.SuperpositionNotFound):
            if self.ask('show', superposition=superposition)['state'] in states.DECIDED:
                self.ask('merge', superposition=superposition)
            else:
                self.ask('drop', superposition=superposition)

    def child(self, superposition: str, *commands: str) -> None:
        """Write to the child version of the first volume."""
        record = self.protocol.show(superposition, records.Home(self.pool))
        actors.child_io(self.cluster, record.volumes[0], *commands)

    def process(self) -> int:
        """Return the id of the worker's process."""
        self.ask('ping')
        process = self.worker._process
        assert process is not None
        return process.popen.pid


@ddt.ddt
class LifeTest(WorkerTestCase):

    def test_promoted_set_is_merged(self) -> None:
        first, second = (self.make_volume().image for _ in range(2))
        superposition = self.super(first, second)
        view = self.ask('show', superposition=superposition)
        self.assertEqual(
            ('superposed', None, 'test', 'a-server', False, {'members': ['here']}, 0, None),
            tuple(view[key] for key in ('state', 'outcome', 'reason', 'server_id', 'joint',
                                        'labels', 'fenced', 'dirty')))
        self.assertEqual([(first, protocol_base.SIZE), (second, protocol_base.SIZE)],
                         [(volume['image'], volume['size_bytes']) for volume in view['volumes']])
        self.assertTrue(all(volume['overlay'].startswith(f'{self.pool}/{volume["image"]}.super')
                            and volume['overlay_bytes'] > 0 for volume in view['volumes']))
        for seconds in (view['age_seconds'], view['unchanged_seconds']):
            self.assertTrue(0 <= seconds < _SECONDS)
        self.assertEqual(superposition, self.ask('find', image=second)['id'])
        (listed,) = [each for each in self.ask('list') if each['id'] == superposition]
        self.assertIsNone(listed['volumes'][0]['overlay_bytes'])

        self.child(superposition, f'write -P 5 {OBJECT} 4k')
        self.assertEqual({'dirty': False, 'first': None, 'objects': 8}, {
            key: value for key, value in self.ask('check', superposition=superposition).items()
            if key != 'seconds'})
        report = self.ask('collapse', superposition=superposition, durable=False)
        self.assertEqual('promoted', report['outcome'])
        self.assertGreater(report['total_s'], report['sweep1']['seconds'])
        self.assertEqual('promoted', self.ask('resume', superposition=superposition))
        self.ask('look_after', superposition=superposition)
        self.assertIsNone(self.ask('unused', superposition=superposition))
        handed = self.ask('hand_out', superposition=superposition)
        self.assertEqual('promoted', handed['state'])
        self.assertIn('handed_at', handed['labels'])
        self.ask('merge', superposition=superposition)
        self.assertIsNone(self.ask('find', image=first))
        volume = records.VolumeRef(self.pool, '', first)
        self.assertEqual(b'\5' * 4096, self.contents(volume)[OBJECT:OBJECT + 4096])
        self.ask('tidy')

    def test_clients_that_stay_fenced_are_counted(self) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        superposition = self.super(volume.image)
        self.assertEqual('promoted', self.ask('collapse', superposition=superposition,
                                              durable=False)['outcome'])
        self.ask('merge', superposition=superposition)
        listed = [fenced.client for fenced in self.protocol.fenced(records.Home(self.pool))]
        self.assertLessEqual(primary.clients, set(listed))
        self.assertEqual(len(listed), self.ask('count_fenced'))

    def test_dirty_collapse_ends_the_superposition(self) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        superposition = self.super(volume.image)
        self.assertEqual(0, primary.write(0, 0x33))
        self.assertTrue(self.ask('check', superposition=superposition)['dirty'])
        self.assertEqual('dirty', self.ask('collapse', superposition=superposition,
                                           durable=False)['outcome'])
        self.assertIsNone(self.ask('find', image=volume.image))

    def test_joint_superposition_is_prepared_and_committed(self) -> None:
        volume = self.make_volume()
        superposition = self.super(volume.image, joint=True)
        self.assertRaises(exception.SuperpositionConflict, self.ask, 'collapse',
                          superposition=superposition, durable=False)
        self.assertEqual('prepared', self.ask('prepare', superposition=superposition,
                                              durable=False)['outcome'])
        for _ in range(2):
            self.ask('commit', superposition=superposition)
        for step in ('begin_merge', 'end_merge', 'merge'):
            self.ask(step, superposition=superposition)
        self.assertIsNone(self.ask('find', image=volume.image))

    @ddt.data(True, False)
    def test_drop_of_a_prepared_record_keeps_the_fence_on_request(self, fenced: bool) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        superposition = self.super(volume.image, joint=True)
        self.ask('prepare', superposition=superposition, durable=False)
        for _ in range(2):
            self.ask('drop', superposition=superposition, fenced=fenced)
        # The fence stays where the set is late dirty, and is lifted where it was aborted.
        self.assertEqual(fenced, primary.clients <= self.fenced())

    def test_durable_backup_is_remembered(self) -> None:
        superposition = self.super(self.make_volume().image)
        record = self.protocol.show(superposition, records.Home(self.pool))
        backup = self.make_backup(record)
        error = self.assertRaises(exception.SuperpositionConflict, self.ask, 'collapse',
                                  superposition=superposition, durable=False)
        self.assertIn('open at', error.msg)
        self.assertEqual('promoted', self.ask('collapse', superposition=superposition,
                                              durable=True)['outcome'])
        self.assertTrue(self.ask('show', superposition=superposition)['labels']['durable'])
        self.assertRaises(exception.SuperpositionConflict, self.ask, 'unused',
                          superposition=superposition)
        backup.end()

    def test_addresses_of_monitors_are_returned(self) -> None:
        monitors = self.cluster.mon({'prefix': 'mon dump'})['mons']
        self.assertNotEqual([], monitors)
        self.assertEqual([monitor['addr'] for monitor in monitors],
                         [f'{host}:{port}/0' for host, port in self.ask('monitors')])

    def test_eligibility_has_reasons(self) -> None:
        good, held = self.make_volume(), self.make_volume()
        superposition = self.super(held.image)
        self.assertEqual([[], [f'it is in superposition {superposition} already']],
                         self.ask('eligibility', images=[good.image, held.image]))
        (reasons,) = self.ask('eligibility', images=['no-such-image'])
        self.assertIn('no-such-image', reasons[0])


@ddt.ddt
class ErrorTest(WorkerTestCase):

    @ddt.data(('show', {}), ('check', {}), ('collapse', {'durable': False}), ('commit', {}),
              ('merge', {}), ('hand_out', {}), ('resume', {}), ('look_after', {}))
    @ddt.unpack
    def test_unknown_superposition_is_not_found(self, method: str, more: dict[str, Any]) -> None:
        error = self.assertRaises(exception.SuperpositionNotFound, self.ask, method,
                                  superposition=_NOBODY, **more)
        self.assertIn(_NOBODY, error.msg)

    def test_merge_before_promotion_is_a_conflict(self) -> None:
        superposition = self.super(self.make_volume().image)
        error = self.assertRaises(exception.SuperpositionConflict, self.ask, 'merge',
                                  superposition=superposition)
        self.assertEqual(('superposed', 409), (error.state, error.code))

    def test_superposed_image_is_refused(self) -> None:
        image = self.make_volume().image
        held = self.super(image)
        error = self.assertRaises(exception.VolumeSuperposed, self.super, image)
        self.assertIn(held, error.msg)

    def test_image_that_is_not_eligible_is_refused_with_reasons(self) -> None:
        image = self.make_volume(features=1).image
        error = self.assertRaises(exception.VolumesNotEligible, self.super, image)
        self.assertNotEqual((), error.reasons)
        self.assertEqual(list(error.reasons), self.ask('eligibility', images=[image])[0])

    def test_missing_image_is_a_conflict(self) -> None:
        self.assertRaises(exception.SuperpositionConflict, self.super, 'no-such-image')

    def test_empty_set_is_invalid(self) -> None:
        self.assertRaises(exception.SuperpositionInvalid, self.super)

    @ddt.data(('no_such_method', {}), ('show', {'colour': 'blue'}), ('_get', {}))
    @ddt.unpack
    def test_unexpected_error_is_logged_and_keeps_the_process(self, method: str,
                                                              arguments: dict[str, Any]) -> None:
        before = self.process()
        error = self.assertRaises(exception.SuperpositionError, self.ask, method, **arguments)
        self.assertEqual((500, exception.SuperpositionError), (error.code, type(error)))
        # The same process serves.
        self.assertEqual(before, self.process())
        self.assertIn('Traceback', self.log.read_text())

    def test_unreachable_cluster_is_unavailable(self) -> None:
        worker = self.make_worker(conffile=str(self.directory / 'no-such.conf'), timeout=2)
        self.assertRaises(exception.SuperpositionUnavailable, worker.call, None, 'ping')

    def test_worker_that_does_not_start_is_unavailable(self) -> None:
        worker = self.make_worker(colour='blue')
        for _ in range(2):
            error = self.assertRaises(exception.SuperpositionUnavailable, worker.call, None,
                                      'ping')
            self.assertIn('did not start', error.msg)
        self.assertIsNone(worker._process)


class ProcessTest(WorkerTestCase):

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
        self.assertEqual([b'-m', b'specreds_cinder.worker.server', b''], command[1:])

    def test_worker_ends_with_its_service(self) -> None:
        program = (
            'import json, sys, time\n'
            'from oslo_config import cfg\n'
            'from oslo_log import log\n'
            'from specreds_cinder.worker import client\n'
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


class LogTest(WorkerTestCase):

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


class DirtyTest(WorkerTestCase):

    watching = True

    def test_write_is_reported_once(self) -> None:
        volume = self.make_volume(objects=8)
        primary = self.make_primary(volume)
        superposition = self.super(volume.image)
        self.assertFalse(self.ask('show', superposition=superposition)['dirty'])
        self.assertIsNone(self.ask('next_dirty', timeout=0.1))
        self.assertEqual(0, primary.write(5 * OBJECT))
        reported, why = self.ask('next_dirty', timeout=_SECONDS)
        self.assertEqual(superposition, reported)
        self.assertIn('.0000000000000005 of ', why)
        view = self.ask('show', superposition=superposition)
        self.assertEqual((True, why), (view['dirty'], view['dirty_object']))
        # It is reported once.
        self.ask('look_after', superposition=superposition)
        self.assertIsNone(self.ask('next_dirty', timeout=0.1))
        self.ask('drop', superposition=superposition)

    def test_next_worker_watches_again(self) -> None:
        volume = self.make_volume(objects=8)
        primary = self.make_primary(volume)
        superposition = self.super(volume.image)
        os.kill(self.process(), signal.SIGKILL)
        with contextlib.suppress(exception.SuperpositionUnavailable):
            self.ask('ping')
        self.assertIsNone(self.ask('show', superposition=superposition)['dirty'])
        self.ask('look_after', superposition=superposition)
        self.assertFalse(self.ask('show', superposition=superposition)['dirty'])
        self.assertEqual(0, primary.write(5 * OBJECT))
        self.assertEqual(superposition, self.ask('next_dirty', timeout=_SECONDS)[0])

    def test_watch_ends_when_another_service_decides(self) -> None:
        other = functools.partial(self.make_worker().call, self.context)
        superposition = self.super(self.make_volume(objects=8).image)
        self.child(superposition, 'write -P 0xc1 0 4M')
        other('look_after', superposition=superposition)
        self.assertFalse(other('show', superposition=superposition)['dirty'])
        self.assertEqual('promoted', self.ask(
            'collapse', superposition=superposition, durable=False)['outcome'])
        self.assertIsNone(other('show', superposition=superposition)['dirty'])
        other('look_after', superposition=superposition)
        # The merge writes to the volume, whose watch has ended.
        self.ask('merge', superposition=superposition)
        self.assertEqual([], other('list'))
        self.assertIsNone(other('next_dirty', timeout=0.1))

    def test_watch_ends_when_another_service_drops_the_superposition(self) -> None:
        other = functools.partial(self.make_worker().call, self.context)
        volume = self.make_volume(objects=8)
        superposition = self.super(volume.image)
        other('look_after', superposition=superposition)
        self.ask('drop', superposition=superposition)
        self.assertEqual([], other('list'))
        self.assertEqual(0, self.make_primary(volume).write(5 * OBJECT))
        self.assertIsNone(other('next_dirty', timeout=0.1))

    def test_watch_continues_after_a_refused_collapse(self) -> None:
        superposition = self.super(self.make_volume().image)
        record = self.protocol.show(superposition, records.Home(self.pool))
        backup = self.make_backup(record)
        self.assertRaises(exception.SuperpositionConflict, self.ask, 'collapse',
                          superposition=superposition, durable=False)
        self.assertFalse(self.ask('show', superposition=superposition)['dirty'])
        self.assertIsNotNone(self.ask('show', superposition=superposition)['dirty'])
        backup.end()


class EventletTest(WorkerTestCase):
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
