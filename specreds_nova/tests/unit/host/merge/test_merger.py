# SPDX-License-Identifier: Apache-2.0
"""The merger of a host: the servers that it merges, and its reports."""

import threading
from typing import Any
from unittest import mock

from nova import exception as nova_exception
from nova import objects
import nova.conf
import testtools

from specreds_nova import exception
from specreds_nova.host.backup import marks
from specreds_nova.host.disks import connections
from specreds_nova.host.merge import errors
from specreds_nova.host.merge import job as merge_job
from specreds_nova.host.merge import merger as mergers
from specreds_nova.tests.unit.host.merge import fakes

CONF = nova.conf.CONF
SERVER = 'b6a1d7f0-5c56-4a52-8f50-3a2f6c1f7d10'
SUPER = '0f9c2c7e-8a77-4e4b-b6d0-0a9a4b6c9d01'


class MergerTestCase(testtools.TestCase):
    """A host with one server that runs on overlays."""

    def setUp(self) -> None:
        super().setUp()
        self.domain = fakes.Domain()
        self.instance = objects.Instance(uuid=SERVER, host='node1', task_state=None, id=1)
        CONF.set_override('host', 'node1')
        self.addCleanup(CONF.clear_override, 'host')
        self.driver = mock.Mock()
        self.driver._host.list_guests.return_value = [
            mock.Mock(uuid=SERVER, _domain=self.domain)]
        self.driver._host.get_connection.return_value.lookupByUUIDString.return_value = (
            self.domain)
        self.cinder = mock.Mock()
        self.expected: str | None = None
        self.reported: list[tuple[str, str, dict[str, Any]]] = []
        self.work = self.replaced(merge_job, 'MergeJob')
        self.work.return_value.progress = merge_job.Progress()
        self.found = self.replaced(objects.Instance, 'get_by_uuid', return_value=self.instance)
        self.noted = self.replaced(connections, 'superposition', return_value=SUPER)
        self.refreshed = self.replaced(connections, 'refresh_all')
        self.merger = mergers.Merger(self.driver, self.cinder,
                                   lambda *report: self.reported.append(report),
                                   lambda _server: self.expected)
        self.addCleanup(self.merger.stop)

    def replaced(self, owner: Any, name: str, **how: Any) -> Any:
        """Replace an attribute until the test ends."""
        patch = mock.patch.object(owner, name, **how)
        self.addCleanup(patch.stop)
        return patch.start()

    def wait(self) -> None:
        """Wait until no merge runs."""
        self.merger._executor.shutdown(wait=True)


class ScanTest(MergerTestCase):

    def scan(self) -> list[Any]:
        """Return the superpositions that are merged."""
        self.merger.scan()
        self.wait()
        return [call.args[1] for call in self.work.call_args_list]

    def test_server_on_overlays_is_merged(self) -> None:
        self.assertEqual([SUPER], self.scan())
        self.noted.assert_called_once_with(self.instance, {'id-root', 'id-data'})

    def test_server_on_volumes_is_not_merged(self) -> None:
        for disk in self.domain.disks:
            disk.overlay = None
        self.assertEqual([], self.scan())

    def test_server_paused_at_the_switch_is_merged(self) -> None:
        # All disks are switched over already; the note has the superposition's id.
        for disk in self.domain.disks:
            disk.overlay = None
        self.domain.setMetadata(0, '<merge superposition="noted" running="yes"/>', 'specreds',
                                'urn:specreds:merge:1', 1)
        self.assertEqual(['noted'], self.scan())

    def test_backup_is_not_merged(self) -> None:
        self.instance.host = 'node7'
        self.assertEqual([], self.scan())

    def test_server_with_a_task_is_not_merged(self) -> None:
        self.instance.task_state = 'rebuilding'
        self.assertEqual([], self.scan())

    def test_unknown_server_is_not_merged(self) -> None:
        self.found.side_effect = nova_exception.InstanceNotFound(instance_id=SERVER)
        self.assertEqual([], self.scan())

    def test_overlay_of_a_server_disk_is_merged_by_the_mark_of_the_domain(self) -> None:
        self.noted.return_value = None
        xml = self.domain.XMLDesc(0)
        mark = (f'<metadata><s:backup xmlns:s="{marks.NAMESPACE}" id="b1" '
                f'superposition="{SUPER}"/></metadata>')
        self.replaced(self.domain, 'XMLDesc', return_value=xml.replace(
            '<devices>', f'{mark}<devices>'))
        self.assertEqual([SUPER], self.scan())

    def test_unknown_superposition_is_not_merged(self) -> None:
        self.noted.return_value = None
        self.assertEqual([], self.scan())


class EnsureTest(MergerTestCase):

    def test_server_is_merged_once_at_a_time(self) -> None:
        go = threading.Event()
        self.work.return_value.run.side_effect = lambda: go.wait(30)
        self.merger.ensure(SERVER, SUPER)
        self.merger.ensure(SERVER, SUPER)
        self.assertEqual('waiting', (self.merger.progress(SERVER) or {})['state'])
        go.set()
        self.wait()
        self.assertEqual(1, self.work.return_value.run.call_count)
        self.assertIsNone(self.merger.progress(SERVER))
        self.refreshed.assert_called_once_with(self.driver, self.instance)

    def test_overlays_are_removed_at_once(self) -> None:
        for answer in (None, exception.SuperpositionRefused('open'),
                       exception.SuperpositionUnknown('Cinder is down')):
            self.cinder.merge.reset_mock(side_effect=True)
            self.cinder.merge.side_effect = answer
            self.refreshed.reset_mock()
            self.merger._merge(SERVER, SUPER, self.begun(), mock.Mock())
            self.cinder.merge.assert_called_once_with(SUPER, 'offline')
            self.refreshed.assert_called_once_with(self.driver, self.instance)

    def begun(self) -> Any:
        """Return a merge that has begun."""
        self.merger._running[SERVER] = self.work.return_value
        return self.work.return_value

    def test_server_that_is_not_this_hosts_is_not_owned(self) -> None:
        self.merger.ensure(SERVER, SUPER)
        owned = self.work.call_args.args[3]
        self.assertTrue(owned())
        self.instance.host = 'node7'
        self.assertFalse(owned())
        self.expected = 'node8'
        self.assertFalse(owned())
        self.found.side_effect = nova_exception.InstanceNotFound(instance_id=SERVER)
        self.assertFalse(owned())
        # An outage does not prove that the server belongs to another host.
        self.found.side_effect = TimeoutError('the database is down')
        self.assertTrue(owned())

    def test_server_that_nova_is_to_adopt_is_owned(self) -> None:
        self.instance.host = 'node7'
        self.merger.ensure(SERVER, SUPER)
        owned, adopted = self.work.call_args.args[3:5]
        for self.expected in ('node7', ''):
            self.assertEqual((True, False), (owned(), adopted()))
        self.expected = None
        self.assertEqual((False, True), (owned(), adopted()))

    def test_server_that_is_rebuilt_or_gone_leaves(self) -> None:
        self.merger.ensure(SERVER, SUPER)
        leaving = self.work.call_args.args[8]
        for task, left in ((None, False), ('rebooting', False), ('rebuilding', True),
                           ('rebuild_spawning', True)):
            self.instance.task_state = task
            self.assertEqual(left, leaving())
        self.instance.task_state, self.instance.host = None, 'node7'
        self.assertTrue(leaving())
        self.found.side_effect = nova_exception.InstanceNotFound(instance_id=SERVER)
        self.assertTrue(leaving())
        self.found.side_effect = TimeoutError('the database is down')
        self.assertRaises(errors.Interrupted, leaving)

    def test_failure_is_reported(self) -> None:
        for error in (errors.Interrupted('Ceph is full'), errors.Gone('Ceph is full'),
                      errors.Overtaken('Ceph is full'),
                      ValueError('Ceph is full')):
            self.work.return_value.run.side_effect = error
            self.merger.ensure(SERVER, SUPER)
            while self.merger.progress(SERVER) is not None:
                pass
            server, superposition, progress = self.reported[-1]
            self.assertEqual((SERVER, SUPER, 'failed'), (server, superposition, progress['state']))
            self.assertIn('Ceph is full', progress['error'])
        self.refreshed.assert_not_called()

    def test_stopped_process_reports_nothing(self) -> None:
        self.work.return_value.run.side_effect = errors.Stopped
        self.merger.ensure(SERVER, SUPER)
        self.wait()
        self.assertEqual([], self.reported)

    def test_stale_connections_are_tolerated(self) -> None:
        self.refreshed.side_effect = exception.SuperpositionUnknown('Cinder is down')
        self.merger.ensure(SERVER, SUPER)
        self.wait()
        self.assertIsNone(self.merger.progress(SERVER))

    def test_merge_after_the_end_does_nothing(self) -> None:
        self.merger.stop()
        self.merger.ensure(SERVER, SUPER)
        self.work.return_value.run.assert_not_called()

    def test_record_and_domain_are_looked_up(self) -> None:
        self.merger.ensure(SERVER, SUPER)
        find, _superposition, record = self.work.call_args.args[:3]
        self.assertIs(self.domain, find())
        self.driver._host.get_connection.side_effect = (
            nova_exception.HypervisorUnavailable(host='node1'))
        self.assertRaises(errors.Unavailable, find)
        record.step('begin')
        self.cinder.merge.assert_called_with(SUPER, 'begin')
        self.cinder.merge.side_effect = exception.SuperpositionRefused('no')
        self.assertRaises(exception.SuperpositionRefused, record.step, 'end')
        self.cinder.state.return_value = 'merging'
        self.assertEqual('merging', record.state())
        self.cinder.state.side_effect = exception.SuperpositionUnknown('?')
        self.assertRaises(exception.SuperpositionUnknown, record.state)


class ThrottleTest(testtools.TestCase):

    def test_progress_is_reported_once_a_second_and_at_each_change(self) -> None:
        reports: list[int] = []
        throttle = mergers._Throttle(lambda progress: reports.append(progress['done']), lambda: 8)
        progress = merge_job.Progress(state='merging')
        with mock.patch.object(mergers, 'time') as clock:
            for now, done, state in ((0.0, 1, 'merging'), (0.5, 2, 'merging'),
                                     (1.5, 3, 'merging'), (1.6, 4, 'switching'),
                                     (1.7, 5, 'switching')):
                clock.monotonic.return_value = now
                progress.done, progress.state = done, state
                throttle(progress)
        self.assertEqual([1, 3, 4], reports)

    def test_many_merges_report_as_often_as_a_few(self) -> None:
        reports: list[int] = []
        throttle = mergers._Throttle(lambda progress: reports.append(progress['done']), lambda: 64)
        progress = merge_job.Progress(state='merging')
        with mock.patch.object(mergers, 'time') as clock:
            for second in range(20):
                clock.monotonic.return_value = float(second)
                progress.done = second
                throttle(progress)
        self.assertEqual([0, 8, 16], reports)

    def test_failing_report_does_not_end_the_merge(self) -> None:
        report = mock.Mock(side_effect=OSError('no space'))
        throttle = mergers._Throttle(report, lambda: 1)
        progress = merge_job.Progress(state='merging')
        throttle(progress)
        report.side_effect = None
        throttle.failed(progress, 'Ceph is full')
        self.assertEqual([('merging', None), ('failed', 'Ceph is full')], [
            (call.args[0]['state'], call.args[0]['error']) for call in report.call_args_list])
