# SPDX-License-Identifier: Apache-2.0
"""The sentinel's look: from the answers of libvirt and Ceph to the end of a domain."""

import dataclasses
import errno
import itertools
import os
import threading
from unittest import mock

import rados
import rbd

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_nova.beats import message
from specreds_nova.beats import renewals
from specreds_nova.sentinel import act
from specreds_nova.sentinel import domains
from specreds_nova.sentinel import evidence
from specreds_nova.sentinel import lease
from specreds_nova.sentinel import links
from specreds_nova.sentinel import processes
from specreds_nova.sentinel import storages
from specreds_nova.tests.unit.sentinel import base


def _caused(cause: Exception) -> errors.ClusterError:
    error = errors.ClusterError(f'could not connect: {cause}')
    error.__cause__ = cause
    return error


class WatchTest(base.WatchTestCase):

    def test_witness_names_the_domains_that_run(self) -> None:
        self.assertIsNone(self.watch.running())
        self.watch.look()
        self.watch.see(self.hypervisor)
        self.assertEqual((frozenset({base.UUID}), {('cinder', base.REF.pool)}),
                         (self.watch.running(), self.watch.places()))
        self.hypervisor.unpaused.return_value = frozenset()
        self.watch.see(self.hypervisor)
        self.assertEqual(frozenset(), self.watch.running())

    def test_witness_does_not_name_a_domain_that_looks_fenced(self) -> None:
        self.watch.look()
        self.watch.see(self.hypervisor)
        self.watch._known[base.UUID].fenced_since = 1.0
        self.assertEqual(frozenset(), self.watch.running())

    def test_witness_has_no_opinion_without_libvirt(self) -> None:
        self.watch = self.make_watch(fresh_s=0.0)
        self.watch.look()
        self.watch.see(self.hypervisor)
        self.assertIsNone(self.watch.running())

    def test_guests_say_when_their_storage_was_heard(self) -> None:
        moments, own = itertools.count(100.0), threading.get_ident()
        # Threads of other tests may ask for the time as well.
        self.replace(renewals, 'now', lambda: (
            next(moments) if threading.get_ident() == own else 0.0))
        self.assertEqual([], self.watch.guests())
        self.watch.look()
        [guest] = self.watch.guests()
        self.assertEqual(('tap1',), guest.taps)
        # When the latest question was asked, and when the look began.
        self.assertEqual((103.0, 100.0), (guest.heard, guest.judged))
        self.storage.record.side_effect = errors.ClusterTimeout('no answer')
        self.watch.look()
        self.assertEqual(100.0, self.watch.guests()[0].judged)

    def test_guest_that_may_be_overtaken_is_not_judged(self) -> None:
        moments = itertools.count(100.0)
        self.replace(renewals, 'now', lambda: next(moments))
        self.watch = self.make_watch(confirm_s=1000)
        self.watch.look()
        self.blocklist, self.watching = frozenset({base.OWN}), frozenset()
        self.watch.look()
        self.assertEqual(100.0, self.watch.guests()[0].judged)
        self.storage.noted.side_effect = errors.ClusterError('unreadable record')
        self.watch.look()
        self.assertEqual(100.0, self.watch.guests()[0].judged)
        self.noted = frozenset({base.OWN})
        self.storage.noted.side_effect = lambda _ref: self.noted
        with mock.patch.object(storages.Storages, 'due', return_value=True):
            self.watch.look()
        self.assertNotEqual(100.0, self.watch.guests()[0].judged)

    def test_guest_whose_domain_does_not_end_is_not_judged(self) -> None:
        self.watch.look()
        judged = self.watch.guests()[0].judged
        self.record = base.make_record(states.PROMOTED, states.PROMOTED, (base.OWN,))
        self.ended.return_value = False
        self.watch.look()
        self.ended.assert_called_once_with(self.process)
        self.assertEqual(judged, self.watch.guests()[0].judged)

    def test_guest_whose_record_cannot_be_read_is_not_judged_with_its_neighbours(self) -> None:
        self._unreadable_neighbour()
        self.watch.look()
        self.assertEqual([True, False], [
            guest.judged is not None
            for guest in sorted(self.watch.guests(), key=lambda guest: guest.name)])

    def test_sentinel_has_looked_when_it_could_read_for_all_users(self) -> None:
        now = [100.0]
        self.replace(renewals, 'now', lambda: now[0])
        self.replace(storages.Storages, 'due', lambda *_: True)
        self.assertEqual(100.0, self.watch.looked)
        self.watch.look()
        unreadable = mock.create_autospec(evidence.Storage, instance=True)
        unreadable.hosts = frozenset({base.HOST})
        unreadable.suspected.side_effect = errors.ClusterError('no keyring')
        self.watch._ceph._storages['nova'] = unreadable
        self.replace(self.watch._ceph, 'of',
                     lambda user: unreadable if user == 'nova' else self.storage)
        other = domains.Image(records.VolumeRef('vms', '', 'disk'), 'nova')
        self.domain = dataclasses.replace(
            self.domain, number=8, images=(*self.domain.images, other))
        for now[0] in (200.0, 230.0):
            self.watch.look()
            self.assertEqual(200.0, self.watch.looked)
        unreadable.suspected.side_effect = lambda _s: frozenset()
        unreadable.opened.return_value = None
        now[0] = 240.0
        self.watch.look()
        self.assertEqual(240.0, self.watch.looked)

    def _two_users(self, error: Exception) -> None:
        """Have a second disk, whose user gets an error from the monitors."""
        other = mock.create_autospec(evidence.Storage, instance=True)
        other.hosts = frozenset({base.HOST})
        other.suspected.side_effect = error
        self.watch._ceph._storages['nova'] = other
        self.replace(self.watch._ceph, 'of',
                     lambda user: other if user == 'nova' else self.storage)
        self.domain = dataclasses.replace(self.domain, images=(
            *self.domain.images, domains.Image(records.VolumeRef('vms', '', 'disk'), 'nova')))

    def test_server_that_one_of_two_users_may_not_read_is_not_hidden(self) -> None:
        self._two_users(_caused(rados.PermissionDeniedError('no', errno.EACCES)))
        now = [100.0]
        self.replace(renewals, 'now', lambda: now[0])
        interfaces = mock.create_autospec(links.Links, instance=True)
        leased = lease.Lease(4.0, self.root / 'taps.json', interfaces)
        leased.renewed(now[0], True)
        for _ in range(2):
            self.watch.look()
            leased.learn(self.watch.answers)
            now[0] += 60.0
            leased.look(self.watch.guests())
            self.assertEqual(message.UNLEASED, leased.reported(self.watch.places()))
        interfaces.set.assert_not_called()
        self.assertEqual({('cinder', 'volumes'): None, ('nova', 'vms'): 100.0},
                         self.watch.answers)

    def test_silence_of_ceph_is_no_answer(self) -> None:
        self._two_users(errors.ClusterTimeout('no answer'))
        self.watch.look()
        self.assertEqual({('cinder', 'volumes'): None}, self.watch.answers)

    def test_refusal_of_an_image_is_an_answer_for_its_pool(self) -> None:
        self.watch.look()
        for method, error, refused in (
                ('record', errors.ClusterError('unreadable record'), False),
                ('record', _caused(rados.TimedOut('late', errno.ETIMEDOUT)), False),
                ('record', _caused(rados.PermissionError('no', errno.EPERM)), True),
                ('opened', _caused(rbd.PermissionError('no', errno.EPERM)), True)):
            with mock.patch.object(self.storage, method, side_effect=error), \
                    mock.patch.object(storages.Storages, 'due', return_value=True):
                self.watch.look()
                self.watch.look()
            self.assertEqual(refused, self.watch.answers['cinder', 'volumes'] is not None)
            with mock.patch.object(storages.Storages, 'due', return_value=True):
                self.watch.look()
            self.assertIsNone(self.watch.answers['cinder', 'volumes'])

    def test_guest_whose_storage_was_never_heard(self) -> None:
        self.storage.suspected.side_effect = errors.ClusterTimeout('no answer')
        self.watch.look()
        [guest] = self.watch.guests()
        self.assertEqual((None, None), (guest.heard, guest.judged))

    def test_unsuperposed_domain_is_kept(self) -> None:
        self.watch.look()
        self.ended.assert_not_called()

    def test_primary_is_ended_after_the_promotion(self) -> None:
        self.record = base.make_record(states.SUPERPOSED)
        self.watch.look()
        self.ended.assert_not_called()
        self.record = base.make_record(states.PROMOTED, states.PROMOTED, (base.OWN,))
        self.watching = frozenset()
        self.watch.look()
        self.silenced.assert_called_once_with(self.domain)
        self.ended.assert_called_once_with(self.process)
        self.assertIn('superposition', (self.root / 'stale' / f'{base.UUID}.json').read_text())
        self.assertEqual([base.UUID], self.watch.status.ended)

    def test_primary_is_ended_where_nothing_can_be_written_down(self) -> None:
        self.watch.look()
        (self.root / 'stale').write_text('no directory')
        self.record = base.make_record(states.PROMOTED, states.PROMOTED, (base.OWN,))
        with mock.patch.object(os, 'fsync', side_effect=OSError(28, 'No space left')):
            self.watching |= {f'{base.HOST}:0/12'}
            self.watch.look()
        self.silenced.assert_called_once_with(self.domain)
        self.ended.assert_called_once_with(self.process)

    def test_refused_kill_does_not_spare_the_next_domain(self) -> None:
        second = dataclasses.replace(self.domain, uuid=base.UUID[:-1] + '2', name='instance-2')
        by_uuid = {base.UUID: self.domain, second.uuid: second}
        self.hypervisor.running.side_effect = lambda: dict.fromkeys(by_uuid, 7)
        self.hypervisor.describe.side_effect = by_uuid.__getitem__
        self.replace(act, 'end', self.real_end)
        self.process = mock.Mock(pid=100, key='100.5', command='qemu', **{
            'kill.side_effect': PermissionError(1, 'Operation not permitted')})
        self.record = base.make_record(states.PROMOTED, states.PROMOTED, (base.OWN,))
        self.watch.look()
        self.assertEqual([self.domain, second],
                         [call.args[0] for call in self.silenced.call_args_list])
        self.assertEqual([], self.watch.status.ended)

    def test_primaries_that_their_records_convict_are_ended_without_a_look_at_all_records(
            self) -> None:
        self.watch.look()
        self.record = base.make_record(states.PROMOTED, states.PROMOTED, (base.OWN,))
        self.blocklist, self.watching = frozenset({base.OWN}), frozenset()
        self.watch.look()
        self.ended.assert_called_once_with(self.process)
        self.storage.noted.assert_not_called()

    def test_fenced_domain_is_kept_if_the_records_cannot_be_read(self) -> None:
        self.watch.look()
        self.blocklist, self.watching = frozenset({base.OWN}), frozenset()
        self.storage.noted.side_effect = errors.ClusterTimeout('no answer')
        self.watch.look()
        self.ended.assert_not_called()
        self.storage.reset.assert_called_once_with()

    def test_judgement_reads_the_blocklist_anew(self) -> None:
        self.watch.look()
        self.storage.suspected.side_effect = lambda _s: frozenset({base.OWN})
        self.watching = frozenset()
        self.watch.look()
        self.ended.assert_not_called()
        self.storage.blocklisted.assert_called_once()

    def test_primary_is_kept_after_an_abort(self) -> None:
        self.watch.look()
        self.record = base.make_record(states.ABORTING, states.ABORTED, (base.OWN,))
        self.noted = self.blocklist = frozenset({base.OWN})
        self.watching = frozenset()
        self.watch.look()
        self.ended.assert_not_called()

    def test_promotion_and_merge_during_silence_of_the_storage_are_noticed(self) -> None:
        self.watch.look()
        self.storage.record.side_effect = errors.ClusterTimeout('no answer')
        self.watch.look()
        self.assertIn('cinder', self.watch.status.silent)
        self.storage.reset.assert_called_once_with()
        self.storage.record.side_effect = lambda _ref, _id: None
        self.blocklist, self.watching = frozenset({base.OWN}), frozenset()
        with mock.patch.object(storages.Storages, 'due', return_value=True):
            self.watch.look()
        self.ended.assert_called_once_with(self.process)
        self.assertEqual({}, self.watch.status.silent)

    def test_verdict_without_a_record_has_to_last(self) -> None:
        self.watch = self.make_watch(confirm_s=1000)
        self.watch.look()
        self.blocklist, self.watching = frozenset({base.OWN}), frozenset()
        self.watch.look()
        self.watch.look()
        self.ended.assert_not_called()

    def test_domain_that_became_the_backup_during_the_look_is_kept(self) -> None:
        self.record = base.make_record(states.PROMOTED, states.PROMOTED, (base.OWN,))
        overlay = domains.Image(records.VolumeRef('volumes', '', 'volume-1.super-6e1e5bd0'),
                                'cinder')
        known, self.domain = self.domain, domains.Domain(
            base.UUID, 'instance-1', 7, None, (overlay,), ())
        self.hypervisor.describe.side_effect = [known, self.domain]
        self.storage.record.side_effect = (
            lambda ref, _id: self.record if ref == base.REF else None)
        self.watch.look()
        self.ended.assert_not_called()

    def test_process_started_with_the_overlay_is_kept(self) -> None:
        self.process = processes.Process(100, 5, 'qemu {"image":"volume-1.super-6e1e5bd0"}')
        self.record = base.make_record(states.PROMOTED, states.PROMOTED, (base.OWN,))
        self.watch.look()
        self.ended.assert_not_called()

    def test_domain_without_a_process_is_left_alone(self) -> None:
        self.replace(processes, 'qemu', lambda _uuid: None)
        self.record = base.make_record(states.PROMOTED, states.PROMOTED, (base.OWN,))
        self.watch.look()
        self.ended.assert_not_called()

    def _silence_libvirt(self) -> None:
        silent = domains.HypervisorSilent('no answer')
        self.hypervisor.running.side_effect = silent
        self.hypervisor.describe.side_effect = silent

    def test_known_primary_is_ended_while_libvirt_is_silent(self) -> None:
        self.watch.look()
        self._silence_libvirt()
        self.record = base.make_record(states.PROMOTED, states.PROMOTED, (base.OWN,))
        with mock.patch.object(processes.Process, 'ended', return_value=False):
            self.watch.look()
        self.assertEqual('no answer', self.watch.status.hypervisor)
        self.ended.assert_called_once_with(self.process)
        self.hypervisor.running.side_effect = dict
        self.watch.look()
        self.assertEqual('', self.watch.status.hypervisor)

    def test_ended_process_is_forgotten_while_libvirt_is_silent(self) -> None:
        self.watch.look()
        self._silence_libvirt()
        self.record = base.make_record(states.PROMOTED, states.PROMOTED, (base.OWN,))
        with mock.patch.object(processes.Process, 'ended', return_value=True):
            self.watch.look()
        self.ended.assert_not_called()
        self.assertEqual(0, self.watch.status.domains)

    def test_nothing_is_ended_before_libvirt_has_answered(self) -> None:
        self._silence_libvirt()
        self.record = base.make_record(states.PROMOTED, states.PROMOTED, (base.OWN,))
        self.watch.look()
        self.ended.assert_not_called()

    def _unreadable_neighbour(self) -> None:
        other, ref = base.UUID.replace('1', '2'), records.VolumeRef('volumes', '', 'volume-2')
        second = domains.Domain(other, 'instance-2', 8, None, (domains.Image(ref, 'cinder'),), ())
        self.hypervisor.running.side_effect = lambda: {other: 8, base.UUID: 7}
        self.hypervisor.describe.side_effect = (
            lambda uuid: self.domain if uuid == base.UUID else second)

        def read(requested: records.VolumeRef, _id: str) -> records.Record | None:
            if requested == ref:
                raise errors.ClusterError('unreadable superposition record')
            return self.record
        self.storage.record.side_effect = read

    def test_unreadable_record_does_not_spare_the_other_domains(self) -> None:
        self._unreadable_neighbour()
        self.record = base.make_record(states.PROMOTED, states.PROMOTED, (base.OWN,))
        self.watch.look()
        self.ended.assert_called_once_with(self.process)
        self.assertEqual({}, self.watch.status.silent)

    def _many(self, count: int, stuck: set[str]) -> list[str]:
        """Run servers with an image each, and return the images whose record is asked for.

        :param stuck: the images whose placement group does not answer
        """
        by_uuid = {}
        for number in range(count):
            ref = records.VolumeRef('volumes', '', f'image-{number}')
            uuid = f'{base.UUID[:-2]}{number:02d}'
            by_uuid[uuid] = domains.Domain(uuid, f'instance-{number}', 7, None,
                                           (domains.Image(ref, 'cinder'),), (f'tap{number}',))
        self.hypervisor.running.side_effect = lambda: dict.fromkeys(by_uuid, 7)
        self.hypervisor.describe.side_effect = by_uuid.__getitem__
        reads: list[str] = []

        def read(ref: records.VolumeRef, _id: str) -> records.Record | None:
            reads.append(ref.image)
            if ref.image in stuck:
                raise errors.ClusterTimeout(f'{ref}: no answer')
            return None
        self.storage.record.side_effect = read
        return reads

    def test_image_that_times_out_does_not_end_the_look(self) -> None:
        reads = self._many(4, {'image-1'})
        self.watch.look()
        self.assertEqual(['image-0', 'image-1', 'image-2', 'image-3'], reads)
        self.assertEqual([True, False, True, True],
                         [guest.judged is not None for guest in self.watch.guests()])
        self.storage.reset.assert_not_called()
        self.assertEqual({}, self.watch.status.silent)
        reads.clear()
        self.watch.look()
        self.assertEqual(['image-0', 'image-2', 'image-3', 'image-1'], reads)

    def test_servers_beside_one_that_times_out_are_ended(self) -> None:
        self._many(1, {'image-0'})
        stuck = self.hypervisor.describe(f'{base.UUID[:-2]}00')
        self.hypervisor.running.side_effect = lambda: {stuck.uuid: 7, base.UUID: 7}
        self.hypervisor.describe.side_effect = (
            lambda uuid: stuck if uuid == stuck.uuid else self.domain)
        read, overtaken = self.storage.record.side_effect, base.make_record(
            states.PROMOTED, states.PROMOTED, (base.OWN,))
        self.storage.record.side_effect = (
            lambda ref, image_id: overtaken if ref == base.REF else read(ref, image_id))
        self.watch.look()
        self.ended.assert_called_once_with(self.process)

    def test_look_with_many_stuck_images_ends_and_the_next_one_goes_on(self) -> None:
        reads = self._many(5, {'image-0', 'image-1', 'image-2'})
        looks = []
        for _ in range(4):
            self.watch.look()
            looks.append([image[-1] for image in reads])
            reads.clear()
        # The second new one ends a look, and what has not been looked at comes first.
        self.assertEqual([['0', '1'], ['2', '3', '4'], ['3', '4', '0'], ['3', '4', '1']], looks)

    def test_images_that_answer_again_are_all_looked_at(self) -> None:
        stuck = {'image-0', 'image-1', 'image-2'}
        reads = self._many(4, stuck)
        for _ in range(3):
            self.watch.look()
        stuck.clear()
        reads.clear()
        self.watch.look()
        self.assertEqual(4, len(set(reads)))
        self.assertNotIn(None, [guest.judged for guest in self.watch.guests()])

    def test_silent_ceph_ends_the_look_at_once(self) -> None:
        reads = self._many(4, set())
        self.watch.look()
        reads.clear()
        self._many(4, {f'image-{number}' for number in range(4)})
        self.storage.suspected.side_effect = itertools.chain(
            [frozenset()], itertools.repeat(errors.ClusterTimeout('no monitor')))
        self.watch.look()
        self.assertEqual(1, self.storage.record.call_count - 4)
        self.storage.reset.assert_called_once_with()

    def test_pings_renew_what_was_heard(self) -> None:
        self.storage.suspected.side_effect = errors.ClusterTimeout('no answer')
        self.watch.look()
        for at in (107.0, 105.0):
            self.watch.heard('cinder', at)
        [guest] = self.watch.guests()
        self.assertEqual((107.0, None), (guest.heard, guest.judged))

    def test_client_of_an_image_of_two_domains_is_not_learned(self) -> None:
        other = base.UUID.replace('1', '2')
        self.hypervisor.running.side_effect = lambda: {base.UUID: 7, other: 8}
        self.hypervisor.describe.side_effect = lambda uuid: domains.Domain(
            uuid, uuid, 7 if uuid == base.UUID else 8, None, self.domain.images, ())
        self.watch.look()
        self.blocklist, self.watching = frozenset({base.OWN}), frozenset()
        self.watch.look()
        self.ended.assert_not_called()
