# SPDX-License-Identifier: Apache-2.0
"""When a host that hears nobody hides its servers, and when it shows them again."""

from collections.abc import Set
import json
import pathlib
from unittest import mock

import ddt
import fixtures
import pyroute2
import testtools

from specreds_nova.beats import message
from specreds_nova.beats import renewals
from specreds_nova.sentinel import lease
from specreds_nova.sentinel import links

_L = 4.0
_VOLUMES, _VMS = ('cinder', 'volumes'), ('nova', 'vms')


class Links(links.Links):
    """Interfaces by name: index, and whether each is up."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[int, bool]] = {'tap1': (7, True), 'tap2': (8, False)}
        self.before_set: list[str] = []
        self.file: pathlib.Path | None = None

    def up(self, name: str) -> int | None:
        index, up = self.found.get(name, (0, False))
        return index if up else None

    def there(self, name: str, index: int) -> bool:
        return name in self.found and self.found[name][0] == index

    def set(self, name: str, index: int, state: str) -> bool:
        if self.file is not None:
            self.before_set.append(self.file.read_text())
        if not self.there(name, index):
            return False
        self.found[name] = index, state == 'up'
        return True


@ddt.ddt
class LeaseTest(testtools.TestCase):
    """A sentinel that has started at second 100, has heard an engine once, and has one server."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 100.0
        self.useFixture(fixtures.MonkeyPatch('specreds_nova.beats.renewals.now',
                                             lambda: self.now))
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'taps.json')
        self.links = Links()
        self.lease = lease.Lease(_L, self.path, self.links)
        self.lease.renewed(self.now, True)

    def look(self, after: float = 0.0, heard: float | None = None, judged: float | None = None,
             places: frozenset[tuple[str, str]] = frozenset()) -> bool:
        """Let time pass, look, and return whether the server can be seen."""
        self.now += after
        self.lease.look([lease.Guest('instance-1', ('tap1', 'tap2'), heard, judged, places)])
        return self.links.found['tap1'][1]

    def covers(self, places: Set[tuple[str, str]]) -> bool:
        """Return whether engines may count on the lease."""
        return self.lease.reported(places) == message.LEASED

    def test_counts_from_its_start_if_nobody_was_heard_since(self) -> None:
        self.assertTrue(self.look(_L - 0.1))
        self.assertFalse(self.look(0.1))

    def test_sentinel_that_has_never_heard_an_engine_hides_nothing(self) -> None:
        self.path.unlink()
        self.lease = lease.Lease(_L, self.path, self.links)
        self.assertFalse(self.covers(set()))
        self.assertTrue(self.look(100.0))
        self.lease.renewed(self.now, True)
        self.assertTrue(self.covers(set()))
        self.assertFalse(self.look(_L))

    def test_sentinel_of_a_host_on_which_engines_do_not_act_hides_nothing(self) -> None:
        self.lease.renewed(self.now, False)
        self.assertEqual(message.SHOWS, self.lease.reported(set()))
        self.assertTrue(self.look(100.0))
        # Also after a restart of the sentinel, and a boot of the host.
        written = json.loads(self.path.read_text())
        self.path.write_text(json.dumps({**written, 'boot': 'another'}))
        self.lease = lease.Lease(_L, self.path, self.links)
        self.assertTrue(self.look(100.0))
        self.lease.renewed(self.now, True)
        self.assertTrue(self.covers(set()))
        self.assertFalse(self.look(_L))

    def test_server_that_is_hidden_already_stays_hidden_until_ceph_has_been_read(self) -> None:
        self.assertFalse(self.look(_L))
        self.lease.renewed(self.now, False)
        self.assertFalse(self.look(1.0))
        self.assertTrue(self.look(1.0, heard=self.now, judged=self.now))

    def test_hides_nothing_although_that_cannot_be_written_down(self) -> None:
        with mock.patch.object(pathlib.Path, 'replace', side_effect=OSError(28, 'No space left')):
            self.lease.renewed(self.now, False)
            self.assertTrue(self.look(100.0))
        self.look()
        self.lease = lease.Lease(_L, self.path, self.links)
        self.assertTrue(self.look(100.0))

    @ddt.data(True, False)
    def test_answer_of_an_engine_that_stood_still_is_not_heeded(self, hides: bool) -> None:
        self.lease.renewed(self.now, not hides)
        before = self.lease.reported(set())
        sent, self.now = self.now + 1.0, self.now + 1.1 + renewals.HEEDED_S
        self.lease.renewed(sent, hides)
        self.assertEqual(before, self.lease.reported(set()))
        # Nor is one that was overtaken.
        self.lease.renewed(self.now, not hides)
        self.lease.renewed(self.now - 1.0, hides)
        self.assertEqual(before, self.lease.reported(set()))

    def test_engine_that_was_heard_once_is_remembered_for_good(self) -> None:
        written = json.loads(self.path.read_text())
        self.path.write_text(json.dumps({**written, 'boot': 'another'}))
        self.lease = lease.Lease(_L, self.path, self.links)
        self.assertTrue(self.covers(set()))
        self.assertFalse(self.look(_L))

    def test_incomplete_or_unreadable_file_counts_as_heard(self) -> None:
        for text in ('{"boot": "another", "taps": {}}', '{'):
            self.path.write_text(text)
            self.lease = lease.Lease(_L, self.path, self.links)
            self.assertTrue(self.covers(set()))

    def test_lease_that_cannot_be_written_down_is_none(self) -> None:
        self.path.unlink()
        self.lease = lease.Lease(_L, self.path.parent / 'none' / 'taps.json', self.links)
        self.assertRaises(OSError, self.lease.renewed, self.now, True)
        self.assertFalse(self.covers(set()))

    def test_server_whose_record_could_never_be_read_is_not_hidden(self) -> None:
        for answers in ({}, {_VOLUMES: None, _VMS: 100.0}):
            self.lease.learn(answers)
            self.assertFalse(self.covers({_VMS}))
            self.assertTrue(self.look(100.0, places=frozenset({_VMS})))
            self.assertTrue(self.look(places=frozenset({_VOLUMES, _VMS})))
        # The host has a lease for other servers only.
        self.assertTrue(self.covers({_VOLUMES}))
        self.assertFalse(self.covers({_VOLUMES, _VMS}))
        self.assertFalse(self.look(places=frozenset({_VOLUMES})))

    def test_record_that_could_be_read_once_is_remembered_while_ceph_is_silent(self) -> None:
        self.lease.learn({_VMS: None})
        self.lease = lease.Lease(_L, self.path, self.links)
        self.lease.learn({})
        self.assertTrue(self.covers({_VMS}))
        self.assertFalse(self.look(_L, places=frozenset({_VMS})))

    def test_lease_of_a_record_that_is_refused_ends_when_engines_know(self) -> None:
        self.lease.learn({_VMS: None})
        self.lease.learn({_VMS: 100.0})
        self.assertFalse(self.covers({_VMS}))
        self.assertFalse(self.look(_L, places=frozenset({_VMS})))
        self.links.found['tap1'] = 9, True
        self.now += 1000.0
        self.lease.renewed(self.now, True)
        self.lease.learn({_VMS: 100.0})
        for _ in range(2):
            self.assertFalse(self.covers({_VMS}))
            self.assertTrue(self.look(100.0, places=frozenset({_VMS})))
            # It remains so after a restart, whether Ceph answers or not.
            self.lease = lease.Lease(_L, self.path, self.links)
        self.lease.learn({_VMS: None})
        self.assertTrue(self.covers({_VMS}))
        self.assertFalse(self.look(_L, places=frozenset({_VMS})))

    def test_unreadable_file_hides_but_is_no_lease_that_engines_may_count_on(self) -> None:
        self.path.write_text('{')
        self.lease = lease.Lease(_L, self.path, self.links)
        self.assertFalse(self.covers({_VMS}))
        self.assertFalse(self.look(_L, places=frozenset({_VMS})))

    def test_ceph_alone_renews(self) -> None:
        self.assertTrue(self.look(10.0, heard=107.0))
        self.assertFalse(self.look(1.0, heard=107.0))

    def test_engine_alone_renews(self) -> None:
        self.lease.renewed(107.0, True)
        self.assertTrue(self.look(10.0))
        self.assertFalse(self.look(1.0))

    def test_older_renewal_takes_nothing_back(self) -> None:
        self.lease.renewed(107.0, True)
        self.lease.renewed(101.0, True)
        self.assertTrue(self.look(10.0))

    def test_answer_of_an_engine_shows_nothing(self) -> None:
        self.assertFalse(self.look(_L, judged=99.0))
        self.lease.renewed(104.5, True)
        self.assertFalse(self.look(1.0, judged=99.0))
        self.assertEqual(['tap1'], self.lease.down)

    def test_hidden_until_ceph_has_been_read_whole(self) -> None:
        self.assertFalse(self.look(_L))
        self.assertFalse(self.look(1.0, heard=104.9, judged=103.0))
        self.assertTrue(self.look(1.0, heard=105.9, judged=105.0))
        self.assertEqual([], self.lease.down)

    def test_interface_that_somebody_else_set_down_stays_down(self) -> None:
        self.look(_L)
        self.assertEqual(['tap1'], self.lease.down)
        self.look(0.1, heard=self.now, judged=self.now)
        self.assertEqual([], self.lease.down)
        self.assertFalse(self.links.found['tap2'][1])

    def test_interface_that_somebody_else_set_up_is_set_down_again(self) -> None:
        self.assertFalse(self.look(_L))
        self.links.found['tap1'] = 7, True
        self.assertFalse(self.look(0.1))
        self.links.found['tap1'] = 7, True
        self.assertFalse(self.look(0.1, heard=self.now, judged=103.0))
        self.assertTrue(self.look(0.1, heard=self.now, judged=self.now))

    def test_written_down_before_the_interface_is_set(self) -> None:
        self.links.file = self.path
        self.look(_L)
        self.assertEqual([{'tap1': 7}], [json.loads(text)['taps']
                                         for text in self.links.before_set])

    def test_all_are_hidden_where_nothing_can_be_written_down(self) -> None:
        self.links.found = {'tap1': (7, True), 'tap2': (8, True)}
        self.now += _L
        guests = [lease.Guest('instance-1', ('tap1',)), lease.Guest('instance-2', ('tap2',))]
        with mock.patch.object(pathlib.Path, 'replace', side_effect=OSError(28, 'No space left')):
            self.lease.look(guests)
        self.assertEqual({'tap1': (7, False), 'tap2': (8, False)}, self.links.found)
        self.assertEqual({}, json.loads(self.path.read_text())['taps'])
        self.lease.look(guests)
        self.assertEqual({'tap1': 7, 'tap2': 8}, json.loads(self.path.read_text())['taps'])

    def test_restarted_sentinel_takes_up_what_it_left(self) -> None:
        self.look(_L)
        self.lease = lease.Lease(_L, self.path, self.links)
        self.assertEqual(['tap1'], self.lease.down)
        self.assertFalse(self.look(1.0))
        self.assertTrue(self.look(0.1, heard=self.now, judged=self.now))
        self.assertEqual({}, json.loads(self.path.read_text())['taps'])

    def test_interfaces_of_a_former_boot_are_forgotten(self) -> None:
        self.path.write_text(json.dumps({'boot': 'another', 'taps': {'tap1': 7}}))
        self.assertEqual([], lease.Lease(_L, self.path, self.links).down)

    def test_unreadable_file_is_no_obstacle(self) -> None:
        self.path.write_text('{')
        self.assertEqual([], lease.Lease(_L, self.path, self.links).down)

    def test_interface_of_another_server_with_the_same_name_is_left_alone(self) -> None:
        self.look(_L)
        self.links.found['tap1'] = 9, False
        self.assertFalse(self.look(0.1, heard=self.now, judged=self.now))
        self.assertEqual([], self.lease.down)


class LinksTest(testtools.TestCase):
    """The kernel of this machine, as far as it can be read without privileges."""

    def test_loopback_and_absent_interface(self) -> None:
        interfaces = links.Links()
        self.assertTrue(interfaces.there('lo', 1))
        self.assertFalse(interfaces.there('lo', 99))
        self.assertIsNone(interfaces.up('specreds-none'))

    def test_interface_that_is_gone_is_not_set(self) -> None:
        error = pyroute2.NetlinkError(19)
        with mock.patch('pyroute2.IPRoute') as route:
            route.return_value.__enter__.return_value.link.side_effect = error
            self.assertFalse(links.Links().set('tap1', 7, 'up'))


class RenewalsTest(testtools.TestCase):
    """Renewals from one process to another."""

    def setUp(self) -> None:
        super().setUp()
        # Longer than the path of a socket may be.
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'd' * 120)
        self.directory.mkdir()
        self.teller = renewals.Teller(self.directory)
        self.addCleanup(self.teller.close)

    def test_latest_counts(self) -> None:
        hearer = renewals.Hearer(self.directory)
        self.addCleanup(hearer.close)
        for at, hides in ((5.5, True), (7.25, False), (6.0, True)):
            self.teller.tell(renewals.Renewal(at, hides))
        self.assertEqual(renewals.Renewal(7.25, False), hearer.hear(1.0))
        self.assertIsNone(hearer.hear(0.0))

    def test_each_engine_is_known_whichever_renewal_is_the_latest(self) -> None:
        hearer = renewals.Hearer(self.directory)
        self.addCleanup(hearer.close)
        for engine in ('e2', 'e 1', ''):
            self.teller.tell(renewals.Renewal(5.5, True, '[::1]:5' if engine else '', engine))
        self.assertIsNotNone(hearer.hear(1.0))
        self.assertEqual({'e2': '[::1]:5', 'e 1': '[::1]:5'}, hearer.voices)

    def test_addresses_that_were_told_last_are_kept_and_another_thread_may_read_them(self) -> None:
        hearer = renewals.Hearer(self.directory)
        self.addCleanup(hearer.close)
        engines = [f'e{number}' for number in range(renewals.ENGINES + 2)]
        reading = iter(hearer.voices.items())
        for engine in ('e0', *engines, 'e2'):
            self.teller.tell(renewals.Renewal(5.5, True, '[::1]:5', engine))
            hearer.hear(1.0)
        self.assertEqual([*engines[3:], 'e2'], [*hearer.voices])
        self.assertEqual([], [*reading])

    def test_nobody_listens(self) -> None:
        self.teller.tell(renewals.Renewal(5.0, True))
        renewals.Hearer(self.directory).close()
        self.teller.tell(renewals.Renewal(6.0, True))

    def test_sentinel_that_is_restarted_hears_again(self) -> None:
        renewals.Hearer(self.directory).close()
        hearer = renewals.Hearer(self.directory)
        self.addCleanup(hearer.close)
        self.teller.tell(renewals.Renewal(5.0, True))
        self.assertEqual(renewals.Renewal(5.0, True), hearer.hear(1.0))

    def test_sentinel_that_does_not_read_is_not_waited_for(self) -> None:
        hearer = renewals.Hearer(self.directory)
        self.addCleanup(hearer.close)
        for number in range(10_000):
            self.teller.tell(renewals.Renewal(float(number), True))
        self.assertIsNotNone(hearer.hear(1.0))
