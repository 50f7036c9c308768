# SPDX-License-Identifier: Apache-2.0
"""The command ``specreds-super``: output and exit status, on a stand-in for the protocol."""

import io
import json
import shlex
import sys
import types
from typing import Any
from unittest import mock

import ddt
import rbd
import testtools

from specreds_cinder import superposition as sp
from specreds_cinder.cli import common
from specreds_cinder.cli import main
from specreds_cinder.osc import progress
from specreds_cinder.superposition import errors
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.unit import fakes

_ID = fakes.superposition().id
_OTHER = _ID[:8] + '-0000-4000-8000-000000000000'
_CLEAN = sp.SweepReport(False, None, 16, 0.25)
_DIRTY = sp.SweepReport(True, 'rbd_data.1a.0 was written', 16, 0.25)


class FakeProtocol:
    """Knows some records; a test chooses everything else."""

    def __init__(self, *records: sp.Record) -> None:
        self.records = records
        self.unreadable: dict[str, sp.ClusterError] = {}
        self.cluster = fakes.Cluster()
        self.check = mock.Mock(return_value=_CLEAN)
        self.collapse = mock.Mock()
        self.abort = mock.Mock()
        self.merge = mock.Mock()
        self.super = mock.Mock(return_value=records[0] if records else None)

    def list(self, home: sp.Home, unreadable: dict[str, sp.ClusterError] | None = None
             ) -> list[sp.Record]:
        """List the records of a home."""
        if unreadable is not None:
            unreadable |= self.unreadable
        return [each for each in self.records if home in each.homes]

    @staticmethod
    def successor(_record: sp.Record) -> sp.Record | None:
        """Return no superposition."""
        return None

    def find(self, ref: sp.VolumeRef) -> sp.Record:
        """Find by volume."""
        for each in self.records:
            if ref in [volume.ref for volume in each.volumes]:
                return each
        raise sp.NotSuperposed(f'volume {ref} is in no superposition')


@ddt.ddt
class FindTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        # The first one is listed by both of its homes.
        self.first = fakes.superposition(volumes=(fakes.volume(), fakes.volume(pool='fast')))
        self.protocol: Any = FakeProtocol(
            self.first, fakes.superposition(id=_OTHER, volumes=(fakes.volume(image='b'),)))
        homes = [sp.Home('volumes'), sp.Home('fast')]
        patched = mock.patch.object(common, 'homes', lambda _cluster: iter(homes))
        patched.start()
        self.addCleanup(patched.stop)

    @ddt.data('fast/vol-1', 'volumes/vol-1', _ID, _ID[:10])
    def test_superposition_is_found_by_volume_id_and_prefix(self, text: str) -> None:
        self.assertEqual(self.first, common.find(self.protocol, text))

    @ddt.data((_ID[:8], '2 superpositions'), ('ffff', 'no superpositions'),
              ('volumes/other', 'volumes/other'))
    @ddt.unpack
    def test_ambiguous_or_unknown_name_is_an_error(self, text: str, words: str) -> None:
        error = self.assertRaises(sp.NotSuperposed, common.find, self.protocol, text)
        self.assertIn(words, str(error))

    def test_malformed_name_is_an_error(self) -> None:
        self.assertRaises(sp.InvalidInput, common.find, self.protocol, 'volumes/')


class HomesTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        pools = [fakes.pool(), fakes.pool(id=3, name='secret'),
                 fakes.pool(id=4, name='objects', rbd=False)]
        self.cluster: Any = types.SimpleNamespace(
            user='cinder', ioctx=self.ioctx,
            pools=lambda: {pool.id: pool for pool in pools})
        patched = mock.patch.object(rbd, 'RBD', lambda: types.SimpleNamespace(
            namespace_list=self.namespaces))
        patched.start()
        self.addCleanup(patched.stop)

    @staticmethod
    def ioctx(name: str) -> Any:
        return mock.MagicMock(**{'__enter__.return_value': name})

    @staticmethod
    def namespaces(pool: str) -> list[str]:
        if pool == 'secret':
            raise rbd.PermissionError('no', 1)
        return ['tenant']

    def test_homes_are_those_that_the_user_may_read(self) -> None:
        self.assertEqual([sp.Home('volumes'), sp.Home('volumes', 'tenant')],
                         list(common.homes(self.cluster)))

    def test_homes_of_one_pool(self) -> None:
        self.assertEqual([sp.Home('objects'), sp.Home('objects', 'tenant')],
                         list(common.homes(self.cluster, 'objects')))

    def test_pool_that_the_user_may_not_read_is_an_error(self) -> None:
        error = self.assertRaises(sp.ClusterError, list, common.homes(self.cluster, 'secret'))
        self.assertIn('client.cinder may not read pool secret', str(error))


@ddt.ddt
class TableTest(testtools.TestCase):

    def shown(self, **changes: Any) -> dict[str, Any]:
        return dict(zip(*common.table(fakes.superposition(**changes)), strict=True))

    def test_lists_are_shown_line_by_line(self) -> None:
        lines = common.Lines(['a', 'b'])
        self.assertEqual('a\nb', lines.human_readable())
        self.assertEqual(['a', 'b'], lines.machine_readable())

    def test_volumes_and_overlays_are_shown(self) -> None:
        shown = self.shown(volumes=(fakes.volume(), fakes.volume(namespace='tenant')))
        self.assertEqual(['volumes/vol-1', 'volumes/tenant/vol-1'],
                         shown['volumes'].machine_readable())
        self.assertEqual(['volumes/vol-1.super-x', 'volumes/tenant/vol-1.super-x'],
                         shown['overlays'].machine_readable())

    def test_clients_of_the_primary_are_the_fenced_ones(self) -> None:
        self.assertEqual(['192.0.2.1:0/17'], self.shown()['primary clients'].machine_readable())
        fenced = self.shown(fenced=('192.0.2.1:0/18', '192.0.2.1:0/17'))
        self.assertEqual(['192.0.2.1:0/17', '192.0.2.1:0/18'],
                         fenced['primary clients'].machine_readable())

    @ddt.data((states.PROMOTED, states.PROMOTED, True), (states.COLLAPSING, None, True),
              (states.SUPERPOSED, None, False), (states.ABORTING, states.ABORTED, False))
    @ddt.unpack
    def test_fenced_depends_on_state_and_outcome(self, state: str, outcome: str | None,
                                                 expected: bool) -> None:
        changes: dict[str, Any] = {'state': state, 'outcome': outcome}
        self.assertIs(expected, self.shown(fenced=('192.0.2.1:0/17',), **changes)['fenced'])
        self.assertIs(False, self.shown(**changes)['fenced'])


class ProgressTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.now = 0.0
        self.stderr = io.StringIO()
        for target, name, value in (
                (progress, 'time', types.SimpleNamespace(monotonic=lambda: self.now)),
                (sys, 'stderr', self.stderr)):
            patched = mock.patch.object(target, name, value)
            patched.start()
            self.addCleanup(patched.stop)

    def test_progress_starts_after_2_s_and_is_shown_every_10_s(self) -> None:
        with common.progress('merging', 'bytes') as shown:
            for self.now in (0.0, 1.9, 2.0, 11.9, 12.0):
                shown(1000, 4000)
        self.assertEqual('merging: 1,000 of 4,000 (25 %) bytes, 2 s\n'
                         'merging: 1,000 of 4,000 (25 %) bytes, 12 s\n', self.stderr.getvalue())

    def test_progress_with_an_unknown_total(self) -> None:
        with common.progress('sweeping', 'objects') as shown:
            self.now = 5.0
            shown(7)
        self.assertEqual('sweeping: 7 objects, 5 s\n', self.stderr.getvalue())

    def test_progress_is_one_line_on_a_terminal(self) -> None:
        with mock.patch.object(self.stderr, 'isatty', lambda: True), \
                common.progress('sweeping', 'objects') as shown:
            self.now = 5.0
            shown(7)
        self.assertEqual('\r\x1b[Ksweeping: 7 objects, 5 s\r\x1b[K', self.stderr.getvalue())

    def test_sweeping_ignores_other_events(self) -> None:
        with common.sweeping():
            self.now = 5.0
            with sp.trace.change('fence.add', 'x'):
                sp.trace.progress('sweep', 'x', 7)
        self.assertEqual('sweeping: 7 objects, 5 s\n', self.stderr.getvalue())


@ddt.ddt
class CommandTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.record = fakes.superposition()
        self.protocol = FakeProtocol(self.record)
        self.made = mock.Mock(return_value=self.protocol)
        self.stdout, self.stderr = io.StringIO(), io.StringIO()
        for target, name, value in (
                (sp, 'Protocol', self.made),
                (main.SuperApp, 'configure_logging', lambda _self: None),
                (sys, 'stdout', self.stdout), (sys, 'stderr', self.stderr)):
            patched = mock.patch.object(target, name, value)
            patched.start()
            self.addCleanup(patched.stop)

    def run_super(self, *words: str, status: int = 0) -> Any:
        returned = main.main(['--conf', '/nonexistent', *words])
        self.assertEqual(status, returned, self.stderr.getvalue())
        return json.loads(self.stdout.getvalue()) if '-f' in words and status != 1 else None

    def test_check_of_a_clean_volume(self) -> None:
        self.assertEqual(
            {'result': 'clean', 'first': None, 'objects swept': 16, 'seconds': 0.25},
            self.run_super('check', 'volumes/vol-1', '-f', 'json'))

    def test_check_of_a_dirty_volume_exits_with_3(self) -> None:
        self.protocol.check.return_value = _DIRTY
        shown = self.run_super('check', 'volumes/vol-1', '-f', 'json', status=3)
        self.assertEqual(('dirty', _DIRTY.first), (shown['result'], shown['first']))

    def test_check_that_proves_nothing_exits_with_3(self) -> None:
        self.protocol.check.return_value = sp.SweepReport(False, 'merged', 7, 0.1, unproven=True)
        shown = self.run_super('check', 'volumes/vol-1', '-f', 'json', status=3)
        self.assertEqual(('unproven', 'merged'), (shown['result'], shown['first']))

    @ddt.data(('promoted', _CLEAN, _CLEAN, 0), ('dirty', _DIRTY, None, 3),
              ('late-dirty', _CLEAN, _DIRTY, 3))
    @ddt.unpack
    def test_exit_status_of_promote_says_the_outcome(self, outcome: str, sweep1: sp.SweepReport,
                                                     sweep2: sp.SweepReport | None,
                                                     status: int) -> None:
        self.protocol.collapse.return_value = mock.Mock(
            outcome=outcome, sweep1=sweep1, sweep2=sweep2, fence_s=0.1, total_s=0.2)
        shown = self.run_super('collapse', '--promote', 'volumes/vol-1', '-f', 'json',
                               status=status)
        self.assertEqual(outcome, shown['outcome'])
        self.assertEqual(_DIRTY.first if status else None, shown['first dirty object'])

    def test_abort_does_not_collapse(self) -> None:
        self.run_super('collapse', '--abort', 'volumes/vol-1')
        self.assertEqual(self.record, self.protocol.abort.call_args.args[0])
        self.protocol.collapse.assert_not_called()

    def test_collapse_needs_exactly_one_decision(self) -> None:
        for decision in ((), ('--promote', '--abort')):
            words = ['collapse', *decision, 'volumes/vol-1']
            self.assertEqual(2, self.assertRaises(SystemExit, main.main, words).code)
        self.assertIn('usage:', self.stderr.getvalue())
        self.protocol.collapse.assert_not_called()
        self.protocol.abort.assert_not_called()

    @ddt.data(((), 0), (('--rate', '0'), 0), (('--rate', '1.5'), 3 << 19))
    @ddt.unpack
    def test_merge_rate_is_in_mib_per_second(self, options: tuple[str, ...],
                                             expected: int) -> None:
        self.run_super('merge', *options, 'volumes/vol-1')
        self.assertEqual(expected, self.protocol.merge.call_args.args[3])

    def test_negative_merge_rate_is_an_error(self) -> None:
        self.run_super('merge', '--rate', '-1', 'volumes/vol-1', status=1)
        self.assertEqual('error: --rate must be 0 or more MiB per second, not -1.0\n',
                         self.stderr.getvalue())
        self.protocol.merge.assert_not_called()

    def test_create_passes_volumes_server_and_reason(self) -> None:
        shown = self.run_super('create', 'volumes/vol-1', 'fast/tenant/b', '--server', 'vm-1',
                               '--reason', 'why', '-f', 'json')
        self.assertEqual(_ID, shown['id'])
        self.protocol.super.assert_called_once_with(
            [sp.VolumeRef('volumes', '', 'vol-1'), sp.VolumeRef('fast', 'tenant', 'b')],
            reason='why', server_id='vm-1')

    def test_snapshot_cannot_be_superposed(self) -> None:
        self.run_super('create', 'volumes/vol-1@snap', status=1)
        self.assertIn('error: ', self.stderr.getvalue())
        self.assertEqual(1, self.stderr.getvalue().count('\n'))
        self.protocol.super.assert_not_called()

    def test_superposition_that_cannot_be_read_is_no_missing_one(self) -> None:
        self.protocol.unreadable = {_OTHER: errors.UnreadableObject('it is torn')}
        with mock.patch.object(common, 'homes', lambda *_: iter([sp.Home('volumes')])):
            self.run_super('check', _OTHER, status=1)
            self.assertIn('it is torn', self.stderr.getvalue())
            self.run_super('check', _ID)

    def test_list_has_each_superposition_once_oldest_first(self) -> None:
        both = fakes.superposition(id=_OTHER, volumes=(fakes.volume(), fakes.volume(pool='fast')))
        older = fakes.superposition(created_at='2019')
        self.protocol.records = (both, older)
        with mock.patch.object(common, 'homes', lambda _cluster, _pool: iter(
                [sp.Home('volumes'), sp.Home('fast')])):
            shown = self.run_super('list', '-f', 'json')
        self.assertEqual([_ID, _OTHER], [row['id'] for row in shown])
        self.assertEqual({'id', 'state', 'volumes', 'created at'}, set(shown[0]))

    def test_blockdev_prints_three_nodes(self) -> None:
        self.run_super('blockdev', 'volumes/vol-1', '--nodes', 'disk')
        words = shlex.split(self.stdout.getvalue())
        self.assertEqual(['-blockdev'] * 3, words[::2])
        self.assertEqual(['disk0-base', 'disk0-file', 'disk0'],
                         [json.loads(word)['node-name'] for word in words[1::2]])

    @ddt.data((states.SUPERPOSED, True), (states.COLLAPSING, False), (states.PROMOTED, False),
              (states.MERGING, False))
    @ddt.unpack
    def test_flushes_are_ignored_only_before_the_decision(self, state: str, ignored: bool
                                                          ) -> None:
        self.protocol.records = (fakes.superposition(state=state),)
        self.run_super('blockdev', 'volumes/vol-1')
        words = shlex.split(self.stdout.getvalue())
        self.assertEqual([False, ignored, ignored],
                         [json.loads(word)['cache']['no-flush'] for word in words[1::2]])

    @ddt.data(states.CREATING, states.MERGED, states.ABORTING)
    def test_blockdev_is_refused_where_no_server_may_use_the_overlays(self, state: str) -> None:
        self.protocol.records = (fakes.superposition(state=state),)
        for options in ((), ('--filename',)):
            self.run_super('blockdev', 'volumes/vol-1', *options, status=1)
        self.assertEqual('', self.stdout.getvalue())
        self.assertIn(f'is {state}, and its ', self.stderr.getvalue())

    def test_blockdev_prints_a_file_name(self) -> None:
        self.run_super('blockdev', 'volumes/vol-1', '--filename')
        kind, _, chain = self.stdout.getvalue().partition(':')
        self.assertEqual(('json', 'qcow2'), (kind, json.loads(chain)['driver']))

    def test_empty_name_is_no_superposition(self) -> None:
        for words in (('collapse', '--abort', ''), ('check', ' ')):
            self.run_super(*words, status=1)
        self.protocol.abort.assert_not_called()
        self.assertIn('is empty', self.stderr.getvalue())

    @ddt.data('9999-12-31T23:59:59+00:00', '0001-01-01T00:00:00+00:00', '2026-01-01T00:00:00')
    def test_time_that_no_host_has_booted_at_is_wrong_usage(self, time: str) -> None:
        words = ['release', '--host', '192.0.2.1', '--booted-at', time]
        self.assertEqual(2, self.assertRaises(SystemExit, main.main, words).code)
        self.assertIn('error: argument --booted-at', self.stderr.getvalue())

    @ddt.data(('--host', '', '--booted-at', '2026-01-01T00:00:00+00:00'), ('--client', ''))
    def test_empty_address_is_an_error(self, words: tuple[str, ...]) -> None:
        self.run_super('release', *words, status=1)
        self.assertEqual('error: the address is empty\n', self.stderr.getvalue())

    @ddt.data('inf', 'nan', '0', '-1', '1e30')
    def test_timeout_that_is_none_is_wrong_usage(self, text: str) -> None:
        words = [f'--timeout={text}', 'list']
        self.assertEqual(2, self.assertRaises(SystemExit, main.main, words).code)
        self.assertIn('error: argument --timeout', self.stderr.getvalue())

    def test_volume_in_no_superposition_is_an_error(self) -> None:
        self.run_super('check', 'volumes/other', status=1)
        self.assertEqual('error: volume volumes/other is in no superposition\n',
                         self.stderr.getvalue())
