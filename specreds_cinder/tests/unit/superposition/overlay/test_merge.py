# SPDX-License-Identifier: Apache-2.0
"""The offline merge runs qemu-img: progress, errors, and a merge that stalls."""

import dataclasses
import json
import os
import pathlib
import subprocess
from unittest import mock

import fixtures
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.exclusion import ledger
from specreds_cinder.superposition.overlay import merge
from specreds_cinder.superposition.overlay import overlay
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.tests.unit import fakes
from specreds_cinder.tests.unit.superposition.truth import test_record

MERGER = '10.0.0.9:0/9'


class OfflineTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.bin = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(fixtures.EnvironmentVariable(
            'PATH', f'{self.bin}{os.pathsep}{os.environ["PATH"]}'))
        self.users: frozenset[str] = frozenset()
        self.useFixture(fixtures.MockPatchObject(volumes, 'watchers', side_effect=self.clients))
        self.useFixture(fixtures.MockPatchObject(volumes, 'current', side_effect=self.current))
        # New names by the old ones; None if the image is deleted.
        self.renamed: dict[str, str | None] = {}
        self.ledger = mock.Mock()
        self.announce = mock.Mock()
        self.fenced: frozenset[str] = frozenset()
        self.fence = mock.Mock(**{f'{method}.side_effect': lambda users: users - self.fenced
                                  for method in ('alive', 'outside')})
        self.measured = self.useFixture(fixtures.MockPatchObject(
            overlay, 'used_bytes', return_value=1000)).mock
        self.cluster = mock.Mock(conffile='/etc/ceph/ceph.conf', user='cinder')
        self.cluster.pools.return_value = {}
        self.record = test_record.make_record(volumes=(
            test_record.make_volume(), test_record.make_volume(image='second')))
        self.progress: list[tuple[int, int]] = []

    def qemu_img(self, script: str) -> None:
        """Replace qemu-img by a script that has its images open while it runs."""
        path = self.bin / 'qemu-img'
        path.write_text(f'#!/bin/sh\n>{self.bin}/open\ntrap "rm {self.bin}/open" EXIT\n'
                        f'{script}\n')
        path.chmod(0o755)

    def clients(self, *_args: object) -> frozenset[str]:
        """Return the clients of any image."""
        return self.users | ({MERGER} if (self.bin / 'open').exists() else frozenset())

    def current(self, _cluster: object, volume: records.Volume) -> records.Volume:
        """Return a volume with the name that its image has at this moment."""
        name = self.renamed.get(volume.image, volume.image)
        if name is None:
            raise errors.VolumeGone(f'{volume.ref} is gone')
        return dataclasses.replace(volume, image=name)

    def merged_into(self) -> list[str]:
        """Run the offline merge, and return the names of the images that qemu-img writes to."""
        log = self.bin / 'log'
        self.qemu_img(f'for word in "$@"; do echo "$word" >>{log}; done')
        self.merge()
        return [json.loads(word.removeprefix('json:'))['backing']['image']
                for word in log.read_text().splitlines() if word.startswith('json:')]

    def merge(self, rate: int = 0, stall_s: float = 60) -> None:
        """Run the offline merge."""
        merge.offline(self.cluster, self.record, self.fence, self.ledger, self.announce, rate,
                      stall_s, lambda done, total: self.progress.append((done, total)))

    def test_passphrase_is_in_no_command_line(self) -> None:
        first = dataclasses.replace(self.record.volumes[0], luks_bytes=2 << 20)
        self.record = dataclasses.replace(self.record, volumes=(first,))
        self.assertIn('passphrase', str(self.assertRaises(errors.MergeFailed, self.merge)))
        log, read = self.bin / 'log', self.bin / 'read'
        self.qemu_img(f'echo "$@" >{log}; path="$*"; path=${{path#*file=}}\n'
                      f'cat ${{path%% *}} >{read}')
        merge.offline(self.cluster, self.record, self.fence, self.ledger, self.announce, 0, 60,
                      keys={first.ref: 's3cret'})
        self.assertNotIn('s3cret', log.read_text())
        self.assertEqual('s3cret', read.read_text())

    def test_qemu_img_commits_each_volume_at_the_rate(self) -> None:
        log = self.bin / 'log'
        self.qemu_img(f'for word in "$@"; do echo "$word" >>{log}; done')
        self.merge(rate=4096)
        words = log.read_text().splitlines()
        self.assertEqual(['commit', '-p', '-d', '-r', '4096'], words[:5])
        node = json.loads(words[5].removeprefix('json:'))
        self.assertEqual('vol', node['backing']['image'])
        self.assertEqual(2, words.count('commit'))
        log.unlink()
        self.merge()
        self.assertNotIn('-r', log.read_text())

    def test_volume_that_is_renamed_meanwhile_is_written_by_its_new_name(self) -> None:
        # Another image may have the old name by now.
        self.ledger.leave.side_effect = lambda *_: self.renamed.update(second='migrated')
        self.assertEqual(['vol', 'migrated'], self.merged_into())

    def test_volume_that_is_renamed_while_it_is_opened_is_not_written(self) -> None:
        # Another image may have the old name by now.
        wrote = self.bin / 'wrote'
        self.qemu_img(rf'printf "    (0.00/100%%)\r"; >{wrote}; exec sleep 60')
        renamed = iter([{}, {'vol': 'migrated'}])
        current = self.current
        with mock.patch.object(volumes, 'current', lambda *arguments: (
                self.renamed.update(next(renamed, {})), current(*arguments))[1]):
            error = self.assertRaises(errors.MergeFailed, self.merge)
        self.assertIn('was renamed', str(error))
        self.announce.assert_not_called()
        self.assertFalse(wrote.exists())

    def test_clients_of_the_volume_are_looked_up_by_its_id(self) -> None:
        self.qemu_img(r'printf "    (100.00/100%%)\r\n"')
        self.merge()
        looks = volumes.watchers.call_args_list  # type: ignore[attr-defined]
        self.assertIn(mock.call(self.cluster, self.record.volumes[0].ref,
                                self.record.volumes[0].image_id), looks)
        self.assertNotIn(mock.call(self.cluster, self.record.volumes[0].ref), looks)

    def test_other_volumes_are_written_if_one_is_deleted_meanwhile(self) -> None:
        self.announce.side_effect = lambda: self.renamed.update(second=None)
        self.record = dataclasses.replace(self.record, volumes=(
            *self.record.volumes, test_record.make_volume(image='third')))
        self.assertEqual(['vol', 'third'], self.merged_into())

    def test_progress_adds_up_over_volumes(self) -> None:
        self.qemu_img(r'printf "    (0.00/100%%)\r    (50.00/100%%)\r"; sleep 0.2; '
                      r'printf "    (100.00/100%%)\r\n"')
        self.merge()
        self.assertEqual((2000, 2000), self.progress[-1])
        self.assertIn((500, 2000), self.progress)
        self.assertEqual(sorted(self.progress), self.progress)

    def test_overlays_are_measured_for_progress_only(self) -> None:
        self.qemu_img('printf "x"')
        merge.offline(self.cluster, self.record, self.fence, self.ledger, self.announce, 0, 60)
        self.measured.assert_not_called()

    def test_merger_announces_itself_when_it_is_in_the_ledger(self) -> None:
        self.qemu_img(r'printf "    (100.00/100%%)\r\n"')
        calls = mock.Mock()
        self.ledger.enter.side_effect = lambda *_args: calls.enter()
        self.announce.side_effect = calls.announce
        self.merge()
        self.assertEqual([mock.call.enter(), mock.call.announce()] * 2, calls.mock_calls)

    def test_merge_that_was_overtaken_writes_nothing(self) -> None:
        wrote = self.bin / 'wrote'
        self.qemu_img(rf'printf "    (0.00/100%%)\r"; >{wrote}; exec sleep 60')
        self.announce.side_effect = errors.RecordChanged('it was changed')
        self.assertRaises(errors.RecordChanged, self.merge)
        self.assertFalse(wrote.exists())

    def test_merger_is_in_the_ledger_before_it_writes(self) -> None:
        self.record = test_record.make_record()
        wrote = self.bin / 'wrote'
        self.qemu_img(rf'printf "    (0.00/100%%)\r"; >{wrote}')
        self.ledger.enter.side_effect = lambda *_: self.assertFalse(wrote.exists())
        self.merge()
        self.assertTrue(wrote.exists())
        self.ledger.enter.assert_called_once_with(
            self.record.volumes[0], frozenset({MERGER}),
            ledger.Entry(ledger.MERGER, self.record.id))

    def test_merger_leaves_the_ledger_after_closing_its_images(self) -> None:
        self.qemu_img('printf "x"')
        self.merge()
        self.assertEqual([mock.call(volume, frozenset({MERGER}))
                          for volume in self.record.volumes], self.ledger.leave.mock_calls)

    def test_failed_merger_stays_in_the_ledger(self) -> None:
        self.qemu_img('printf "x"; exit 1')
        self.assertRaises(errors.MergeFailed, self.merge)
        self.ledger.leave.assert_not_called()

    def test_merger_that_opens_no_image_is_ended(self) -> None:
        self.qemu_img(f'rm {self.bin}/open; exec sleep 1000')
        error = self.assertRaises(errors.MergeFailed, self.merge, stall_s=1)
        self.assertIn('no progress for 1 s', str(error))

    def test_open_overlay_is_busy(self) -> None:
        self.users = frozenset({'10.0.0.1:0/1'})
        self.qemu_img('exit 9')
        error = self.assertRaises(errors.OverlayBusy, self.merge)
        self.assertIn('10.0.0.1:0/1', str(error))

    def test_dead_client_that_stays_listed_is_no_user_once_it_is_fenced(self) -> None:
        self.users = self.fenced = frozenset({'10.0.0.1:0/1'})
        self.qemu_img('exit 0')
        self.merge()
        self.assertEqual(2, self.ledger.leave.call_count)

    def test_client_fenced_during_the_merge_may_have_written(self) -> None:
        self.qemu_img('exit 0')
        late = frozenset({'10.0.0.1:0/1'})
        self.fenced = late
        self.ledger.leave.side_effect = lambda *_: setattr(self, 'users', late)
        error = self.assertRaises(errors.OverlayBusy, self.merge)
        self.assertIn('10.0.0.1:0/1', str(error))

    def test_failure_has_the_output_of_qemu_img(self) -> None:
        self.qemu_img('echo "qemu-img: no space" >&2; exit 1')
        error = self.assertRaises(errors.MergeFailed, self.merge)
        self.assertIn('no space', str(error))
        self.assertIn('volumes/vol', str(error))

    def test_stalled_merger_is_ended(self) -> None:
        pids = self.bin / 'pid'
        self.qemu_img(f'echo $$ >{pids}; exec sleep 1000')
        error = self.assertRaises(errors.MergeFailed, self.merge, stall_s=1)
        self.assertIn('no progress for 1 s', str(error))
        self.assertFalse(pathlib.Path('/proc', pids.read_text().strip()).exists())

    def test_full_pool_is_named_as_the_cause_of_a_stall(self) -> None:
        self.qemu_img('exec sleep 1000')
        volume = self.record.volumes[0]
        self.cluster.pools.return_value = {
            volume.pool_id: fakes.pool(id=volume.pool_id, name='p', full=True)}
        error = self.assertRaises(errors.MergeFailed, self.merge, stall_s=1)
        self.assertIn('waits for space: pool p is full', str(error))

    def test_pools_of_headers_and_of_data_need_space(self) -> None:
        volume = test_record.make_volume(pool_id=3, data_pool_id=4)
        pools = {number: fakes.pool(id=number, name=f'p{number}') for number in (3, 4, 5)}
        for number, full in ((3, True), (4, True), (5, False)):
            self.cluster.pools.return_value = pools | {
                number: dataclasses.replace(pools[number], full=True)}
            if full:
                error = self.assertRaises(errors.MergeFailed, merge.check_space, self.cluster,
                                          [volume])
                self.assertIn(f'waits for space: pool p{number} is full', str(error))
            else:
                merge.check_space(self.cluster, [volume])

    def test_slow_merger_is_not_ended(self) -> None:
        self.qemu_img(r'for i in 1 2 3 4 5 6; do printf "(%d.00/100%%)\r" $i; sleep 0.5; done')
        with mock.patch.object(subprocess.Popen, 'kill') as kill:
            self.merge(stall_s=2)
        kill.assert_not_called()

    def test_missing_program_is_named(self) -> None:
        with mock.patch.object(subprocess, 'Popen', side_effect=FileNotFoundError):
            error = self.assertRaises(errors.MergeFailed, self.merge)
        self.assertIn('install util-linux', str(error))
        (self.bin / 'setpriv').symlink_to('/usr/bin/setpriv')
        self.useFixture(fixtures.EnvironmentVariable('PATH', str(self.bin)))
        error = self.assertRaises(errors.MergeFailed, self.merge)
        self.assertIn('qemu-img', str(error))

    def test_overlay_opened_during_the_merge_is_busy(self) -> None:
        self.qemu_img('exit 0')
        self.ledger.leave.side_effect = lambda *_: setattr(
            self, 'users', frozenset({'10.0.0.1:0/1'}))
        error = self.assertRaises(errors.OverlayBusy, self.merge)
        self.assertIn('10.0.0.1:0/1', str(error))
