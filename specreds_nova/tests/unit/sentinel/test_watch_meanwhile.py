# SPDX-License-Identifier: Apache-2.0
"""What happens to a domain between two looks of the sentinel, and during one."""

import dataclasses
import time
from unittest import mock

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.truth import states
from specreds_nova.sentinel import domains
from specreds_nova.sentinel import evidence
from specreds_nova.sentinel import processes
from specreds_nova.tests.unit.sentinel import base

_NEW = f'{base.HOST}:0/12'


class MeanwhileTest(base.WatchTestCase):

    def look(self) -> bool:
        """Look once, and return whether a domain was ended."""
        self.ended.reset_mock()
        self.watch.look()
        return bool(self.ended.called)

    def fence(self) -> None:
        """Let the client of the domain be fenced for good, without a record that names it."""
        self.blocklist, self.watching = frozenset({base.OWN}), frozenset()

    def test_server_that_was_started_meanwhile_does_not_own_the_clients_of_a_fenced_one(
            self) -> None:
        # An OSD still lists the fenced client of the former process, but no client of this one.
        self.blocklist = frozenset({base.OWN})
        self.assertFalse(self.look())
        self.watching = frozenset()
        self.assertFalse(self.look())

    def test_domain_that_was_started_anew_meanwhile_is_kept(self) -> None:
        self.assertFalse(self.look())
        self.fence()
        before = self.domain
        self.hypervisor.running.side_effect = lambda: {before.uuid: before.number}
        self.domain = dataclasses.replace(before, number=before.number + 1)
        self.assertFalse(self.look())

    def test_domain_that_ends_meanwhile_is_not_ended(self) -> None:
        self.assertFalse(self.look())
        self.fence()
        self.hypervisor.describe.side_effect = lambda _uuid: None
        self.assertFalse(self.look())

    def test_domain_whose_disks_were_switched_meanwhile_is_judged_by_the_new_ones(self) -> None:
        self.record = base.make_record(states.PROMOTED, states.PROMOTED, (base.OWN,))
        self.hypervisor.describe.side_effect = [
            self.domain, *[dataclasses.replace(self.domain, images=())] * 9]
        self.assertFalse(self.look())

    def test_process_that_is_started_meanwhile_is_another_one(self) -> None:
        self.assertFalse(self.look())
        self.fence()
        self.domain = dataclasses.replace(self.domain, number=8)
        self.process = processes.Process(101, 6, 'qemu -uuid x')
        self.watching = frozenset({_NEW})
        self.assertFalse(self.look())
        self.watching = frozenset()
        self.assertFalse(self.look())
        self.record = base.make_record(states.PROMOTED, states.PROMOTED, (_NEW,))
        self.assertTrue(self.look())
        self.ended.assert_called_once_with(self.process)

    def confirm(self) -> None:
        """Let a verdict have to stand for 10 s."""
        self.watch = self.make_watch(confirm_s=10.0)
        self.now = 1000.0
        self.replace(time, 'monotonic', lambda: self.now)
        self.assertFalse(self.look())
        self.fence()
        self.now += 1.0
        self.assertFalse(self.look())

    def test_domain_that_looks_fenced_all_the_time_is_ended(self) -> None:
        self.confirm()
        self.now += 10.0
        self.assertTrue(self.look())

    def test_domain_that_does_not_look_fenced_meanwhile_has_all_of_its_time_again(self) -> None:
        def clean() -> None:
            self.blocklist = frozenset()

        def noted() -> None:
            self.noted = frozenset({base.OWN})

        def trouble() -> None:
            self.storage.blocklisted.side_effect = errors.ClusterError('unreadable')
        for meanwhile in (clean, noted, trouble):
            self.noted = self.blocklist = frozenset()
            self.storage.blocklisted.side_effect = lambda _s: self.blocklist
            self.watching = frozenset({base.OWN})
            self.confirm()
            self.now += 6.0
            meanwhile()
            self.assertFalse(self.look(), meanwhile.__name__)
            self.now += 6.0
            self.noted = frozenset()
            self.storage.blocklisted.side_effect = lambda _s: self.blocklist
            self.fence()
            self.assertFalse(self.look(), meanwhile.__name__)

    def test_client_that_watches_meanwhile_is_not_fenced_by_an_old_blocklist(self) -> None:
        self.assertFalse(self.look())
        self.fence()
        # The blocklist is read first: the client of a server that runs is there afterwards.
        events: list[str] = []

        def blocklisted(_seconds: float) -> frozenset[str]:
            events.append('blocklist')
            return self.blocklist

        def opened(_ref: object) -> evidence.Opened:
            events.append('watchers')
            return evidence.Opened('id1', self.watching)

        def record(_ref: object, _id: object) -> None:
            events.append('record')
        self.storage.blocklisted.side_effect = blocklisted
        self.storage.opened.side_effect = opened
        self.storage.record.side_effect = record
        self.look()
        at = events.index('blocklist')
        self.assertEqual(['blocklist', 'watchers', 'record'], events[at:at + 3])

    def test_blocklist_is_read_again_after_storage_was_silent_meanwhile(self) -> None:
        self.watch._settings = dataclasses.replace(self.watch._settings, blocklist_s=1000.0)
        self.assertFalse(self.look())
        self.storage.opened.side_effect = errors.ClusterError('no answer')
        self.assertFalse(self.look())
        self.storage.opened.side_effect = lambda _ref: evidence.Opened('id1', self.watching)
        self.fence()
        self.replace(self.watch._ceph, 'due', lambda _user: True)
        self.assertTrue(self.look())

    def test_domain_that_runs_on_while_libvirt_is_silent_meanwhile_is_known(self) -> None:
        self.process = mock.Mock(key='100.5', command='qemu', pid=100, **{
            'ended.return_value': False})
        self.assertFalse(self.look())
        self.hypervisor.running.side_effect = domains.HypervisorSilent('no answer')
        self.process.ended.return_value = True
        self.fence()
        self.assertFalse(self.look())
        self.assertEqual(0, self.watch.status.domains)
