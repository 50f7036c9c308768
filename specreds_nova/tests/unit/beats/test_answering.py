# SPDX-License-Identifier: Apache-2.0
"""Which hosts an engine answers, and so for how long they show their servers."""

from typing import Any
from unittest import mock

import testtools

from specreds_nova.beats import answering
from specreds_nova.beats import message
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.suspicion import leases as all_leases


class AnswersTest(testtools.TestCase):
    """An engine that hears two hosts, one look after the other."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 1000.0
        self.hosts = [model.Host('cn1'), model.Host('cn2')]
        self.beats = [('cn1', 'b1', 7), ('cn2', 'b2', 9)]
        self.sent: list[tuple[str, dict[str, Any]]] = []
        bus, self.store, clock, heard = mock.Mock(), mock.Mock(), mock.Mock(), mock.Mock()
        bus.send_all.side_effect = self._send
        self.bus = bus
        self.store.notable_hosts.side_effect = lambda: [
            host for host in self.hosts if host.notable]
        clock.now.side_effect = lambda: self.now
        heard.answerable.side_effect = lambda: self.beats
        self.leases = all_leases.Leases()
        self.modes: dict[str, str | None] = {}
        modes = mock.Mock()
        modes.of.side_effect = self._mode
        # By host that is recorded as one that shows its servers: how often that was.
        self.shows: dict[str, int] = {}
        self.store.showing.side_effect = lambda: dict(self.shows)
        self.store.show.side_effect = lambda names: self.shows.update(
            {name: self.shows.get(name, 0) + 1 for name in names})
        self.answers = answering.Answers(bus, heard, self.store, clock, self.leases, 4.0, modes)

    def _send(self, answers: list[tuple[str, dict[str, Any]]]) -> None:
        """Receive answers as hosts do."""
        for host, answer in answers:
            method, received = message.unwrap(message.wrap_answer(**answer))
            self.assertEqual('answer', method)
            self.sent.append((host, dict(received)))

    def _mode(self, host: str) -> str:
        mode = self.modes.get(host, model.ACT)
        if mode is None:
            raise exception.Unreachable('Nova has not said yet where it is')
        return mode

    def hides(self) -> dict[str, bool]:
        """Return which hosts one look tells to hide their servers, and which not to."""
        self.beats = [(name, boot, number + 1) for name, boot, number in self.beats]
        self.sent.clear()
        self.answers.beat()
        return {host: answer['hides'] for host, answer in self.sent}

    def answered(self) -> list[str]:
        """Return the hosts that one look answers."""
        self.sent.clear()
        self.answers.beat()
        return [host for host, _ in self.sent]

    def test_latest_beat_of_each_host_is_answered_once(self) -> None:
        self.answers.beat()
        self.assertEqual([('cn1', {'boot': 'b1', 'number': 7, 'hides': True}),
                          ('cn2', {'boot': 'b2', 'number': 9, 'hides': True})], self.sent)
        self.beats[1] = ('cn2', 'b2', 12)
        self.assertEqual(['cn2'], self.answered())

    def test_hosts_are_told_which_servers_they_protect(self) -> None:
        self.answers.protects = {'cn2': 'opt-in'}
        self.answers.beat()
        self.assertEqual([None, 'opt-in'], [answer.get('protects') for _, answer in self.sent])

    def test_host_that_any_engine_suspects_is_not_answered(self) -> None:
        for state in (model.SUSPECTED, model.FENCED):
            self.beats = [('cn1', 'b1', self.beats[0][2] + 1), ('cn2', 'b2', 9)]
            self.hosts[0] = model.Host('cn1', state=state)
            self.assertNotIn('cn1', self.answered())

    def test_host_that_is_not_written_down_yet_is_answered(self) -> None:
        self.hosts = []
        self.assertEqual(['cn1', 'cn2'], self.answered())

    def test_nobody_is_answered_without_the_database(self) -> None:
        self.store.notable_hosts.side_effect = exception.Unreachable('away')
        self.assertEqual([], self.answered())

    def test_nobody_is_answered_by_what_was_read_too_long_ago(self) -> None:
        def slow() -> list[model.Host]:
            self.now += all_leases.FRESH
            return self.hosts
        self.store.notable_hosts.side_effect = slow
        self.assertEqual([], self.answered())

    def test_hosts_that_were_left_out_for_lack_of_time_are_answered_first(self) -> None:
        def slow(answers: list[tuple[str, dict[str, Any]]]) -> None:
            self.now += 0.6 * all_leases.FRESH
            self.sent.extend(answers)
        self.bus.send_all.side_effect = slow
        names = [f'cn{number:03}' for number in range(150)]
        looks = []
        for number in range(3):
            self.beats = [(name, 'b1', number) for name in names]
            looks.append(self.answered())
        self.assertEqual([names[:100], names[100:] + names[:50], names[50:]], looks)

    def test_broker_that_is_away_costs_one_look(self) -> None:
        send = self.bus.send_all.side_effect
        self.bus.send_all.side_effect = OSError('reset')
        self.assertEqual([], self.answered())
        self.bus.send_all.side_effect = send
        self.assertEqual(['cn1', 'cn2'], self.answered())

    def test_host_is_to_hide_its_servers_only_where_engines_act(self) -> None:
        for mode in (model.OBSERVE, model.PAUSE):
            self.modes['cn2'] = mode
            self.assertEqual({'cn1': True, 'cn2': False}, self.hides())
        self.modes['cn2'] = model.ACT
        self.assertEqual({'cn1': True, 'cn2': True}, self.hides())

    def test_host_that_is_to_hide_nothing_is_recorded_before(self) -> None:
        self.modes['cn1'] = model.OBSERVE
        send = self.bus.send_all.side_effect

        def recorded(answers: list[tuple[str, dict[str, Any]]]) -> None:
            self.assertEqual({'cn1': 1}, self.shows)
            send(answers)
        self.bus.send_all.side_effect = recorded
        for _ in range(3):
            self.assertEqual({'cn1': False, 'cn2': True}, self.hides())

    def test_host_that_another_engine_suspects_meanwhile_is_told_nothing(self) -> None:
        self.modes['cn1'] = model.PAUSE
        self.store.show.side_effect = None
        self.assertEqual({'cn2': True}, self.hides())

    def test_each_begin_is_recorded_as_engines_may_count_on_the_host_between(self) -> None:
        for times in (1, 2):
            self.modes['cn1'] = model.OBSERVE
            self.hides()
            self.assertEqual({'cn1': times}, self.shows)
            self.modes['cn1'] = model.ACT
            self.hides()
        self.modes['cn1'] = model.OBSERVE
        self.hides()
        # It was not seen for a while whether the mode has changed.
        self.now += 10.0
        self.hides()
        self.assertEqual({'cn1': 4}, self.shows)
        # An engine that takes the host for one of another aggregate counts on it.
        del self.shows['cn1']
        self.assertEqual({'cn1': False, 'cn2': True}, self.hides())
        self.assertEqual({'cn1': 1}, self.shows)

    def test_host_whose_mode_is_unknown_is_told_nothing(self) -> None:
        self.modes['cn1'] = None
        self.assertEqual({'cn2': True}, self.hides())
        self.assertEqual({}, self.shows)

    def test_beat_from_after_the_reading_of_the_modes_is_not_answered_by_them(self) -> None:
        self.modes['cn1'] = model.OBSERVE

        def later() -> list[model.Host]:
            self.beats = [('cn1', 'b1', 100)]
            return []
        self.store.notable_hosts.side_effect = later
        self.answers.beat()
        self.assertEqual(7, dict(self.sent)['cn1']['number'])

    def test_refused_hosts_are_noted(self) -> None:
        suspected = model.Host('cn1', state=model.SUSPECTED, since=990.0)
        self.hosts[0] = suspected
        self.answers.beat()
        options = mock.Mock(sentinel_network_lease=4.0, network_lease_margin=1.0)
        self.assertEqual(3.5, self.leases.left(suspected, 1002.0, options))


class LeasesTest(testtools.TestCase):
    """The time for which an engine waits for a host's lease."""

    def setUp(self) -> None:
        super().setUp()
        self.leases = all_leases.Leases()
        self.options = mock.Mock(sentinel_network_lease=4.0, network_lease_margin=1.0)
        self.host = model.Host('cn1', state=model.SUSPECTED, since=1000.0)

    def left(self, now: float) -> float:
        """Return the rest of the wait."""
        return self.leases.left(self.host, now, self.options)

    def test_counts_from_when_this_engine_saw_it(self) -> None:
        # Whatever the clock of the engine that wrote it says.
        self.assertEqual(5.5, self.left(2000.0))
        self.assertEqual(1.5, self.left(2004.0))
        self.assertEqual(0.0, self.left(2006.0))

    def test_another_suspicion_counts_anew(self) -> None:
        self.left(2000.0)
        self.host = model.Host('cn1', state=model.FENCED, since=1004.0)
        self.assertEqual(5.5, self.left(2004.0))

    def test_same_suspicion_goes_on_when_the_host_is_fenced(self) -> None:
        self.left(2000.0)
        self.host = model.Host('cn1', state=model.FENCED, since=1000.0)
        self.assertEqual(1.5, self.left(2004.0))

    def test_host_that_was_trusted_between_counts_anew(self) -> None:
        self.left(2000.0)
        self.leases.note([model.Host('cn1', since=1000.0)], 2001.0)
        self.assertEqual(5.5, self.left(2004.0))

    def test_trusted_host_and_no_lease_are_not_waited_for(self) -> None:
        self.options.sentinel_network_lease = 0.0
        self.assertEqual(0.0, self.left(2000.0))
        self.options.sentinel_network_lease = 4.0
        self.host = model.Host('cn1')
        self.assertEqual(0.0, self.left(2000.0))
