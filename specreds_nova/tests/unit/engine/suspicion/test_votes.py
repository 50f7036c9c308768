# SPDX-License-Identifier: Apache-2.0
"""What several engines make of a host that some of them do not hear."""

import dataclasses
import itertools
from typing import Any
from unittest import mock

from oslo_config import cfg
import testtools

from specreds_nova.beats import message
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.suspicion import conf as detection_conf
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import monitor as monitors
from specreds_nova.engine.suspicion import suspects
from specreds_nova.engine.suspicion import votes
from specreds_nova.tests.unit.engine import clock as clocks
from specreds_nova.tests.unit.engine.suspicion import base

_STEP = 0.1


class Database:
    """The votes, in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, model.Vote] = {}
        self.away = False

    def vote(self, vote: model.Vote) -> None:
        """Replace a vote, and raise the counter."""
        self._answer()
        known = self.rows.get(vote.engine)
        self.rows[vote.engine] = dataclasses.replace(
            vote, counter=max(vote.counter, known.counter + 1 if known else 1))

    def votes(self) -> list[model.Vote]:
        """Return all votes."""
        self._answer()
        return list(self.rows.values())

    def withdraw(self, vote: model.Vote) -> None:
        """Remove a vote."""
        if self.rows.get(vote.engine) == vote:
            del self.rows[vote.engine]

    def _answer(self) -> None:
        if self.away:
            raise exception.Unreachable('the database is away')


class Engine:
    """The parts of an engine that decide whether a host is dead."""

    def __init__(self, name: str, clock: clocks.Clock, database: Any) -> None:
        self.name = name
        self.alive = True
        self.echo = True
        self.cut: frozenset[str] = frozenset()
        options = _options()
        self.monitor = monitors.Monitor(clock, base.Witness(clock),
                                        detection_conf.monitor_settings(options))
        self.votes = votes.Votes(name, self.monitor, database, clock)
        clock_of_suspects = mock.Mock()
        self.suspects = suspects.Suspects(self.monitor, clock_of_suspects, self.votes,
                                           gates.Gates(()))
        self.gates = detection_conf.host_gates(options)

    def acts(self, host: str) -> bool:
        """Return whether this engine would recover the servers of a host."""
        view = self.monitor.look(host)
        if not self.alive or view is None or not view.suspected:
            return False
        self.votes.read()
        facts = dataclasses.replace(self.monitor.facts(host), hearing=self.votes.holding(host))
        return not self.gates.reasons(facts)


def _options() -> object:
    config = cfg.ConfigOpts()
    config.register_opts(detection_conf.OPTIONS, 'engine')
    config([])
    return config.engine


class EnginesTest(testtools.TestCase):
    """Three engines and nine hosts."""

    hosts = tuple(f'cn{number}' for number in range(9))

    def setUp(self) -> None:
        super().setUp()
        self.begin()

    def begin(self) -> None:
        self.clock = clocks.Clock()
        self.database = Database()
        self.engines = [Engine(f'ctl{number}', self.clock, self.database) for number in range(3)]
        self.nodes = {name: base.Node(name, 0.0) for name in self.hosts}
        # By engine: the hosts for which it would act.
        self.acted: set[tuple[str, str]] = set()
        self.run_for(7.0)

    def run_for(self, seconds: float) -> None:
        for count in range(round(seconds / _STEP)):
            self.clock.time += _STEP
            if count % 2 == 0:
                self._beat()
            for engine in self.engines:
                if engine.alive:
                    self._turn(engine)

    def _beat(self) -> None:
        for node in self.nodes.values():
            beat = node.beat()
            for engine in self.engines:
                if node.alive and engine.alive and engine.echo and node.name not in engine.cut:
                    engine.monitor.heard(beat)

    def _turn(self, engine: Engine) -> None:
        if engine.echo:
            engine.monitor.echo(self.clock.time)
        engine.monitor.tick()
        engine.votes.beat()
        self.acted |= {(engine.name, host) for host in self.hosts if engine.acts(host)}

    def test_engine_that_lost_any_third_of_the_hosts_fences_none(self) -> None:
        for cut in itertools.combinations(self.hosts, 3):
            self.begin()
            self.engines[0].cut = frozenset(cut)
            self.run_for(8.0)
            self.assertEqual({*cut}, {host for host in self.hosts
                                      if self.engines[0].monitor.suspected(host)})
            self.assertEqual(set(), self.acted)
            self.assertTrue(all(self.engines[0].suspects.is_well(host) for host in cut))

    def test_dead_host_is_recovered_although_its_beats_were_lost_before(self) -> None:
        self.engines[0].cut = frozenset({'cn1', 'cn2', 'cn3'})
        self.run_for(5.0)
        self.nodes['cn1'].alive = False
        self.run_for(3.0)
        self.assertEqual({('ctl0', 'cn1'), ('ctl1', 'cn1'), ('ctl2', 'cn1')}, self.acted)
        self.assertFalse(self.engines[0].suspects.is_well('cn1'))

    def test_dead_host_costs_no_time_if_all_engines_hear(self) -> None:
        self.nodes['cn1'].alive = False
        self.run_for(1.2)
        self.assertEqual({'cn1'}, {host for _, host in self.acted})

    def test_engine_that_has_died_blocks_for_a_moment_only(self) -> None:
        self.engines[2].alive = False
        self.nodes['cn1'].alive = False
        self.run_for(1.2)
        self.assertEqual(set(), self.acted)
        self.run_for(2.0)
        self.assertIn(('ctl0', 'cn1'), self.acted)

    def test_engine_without_echo_blocks_nobody(self) -> None:
        self.engines[2].echo = False
        self.run_for(1.0)
        self.nodes['cn1'].alive = False
        self.run_for(1.2)
        self.assertIn(('ctl0', 'cn1'), self.acted)

    def test_engine_that_never_heard_a_host_does_not_block(self) -> None:
        self.nodes['new'] = base.Node('new', 0.0)
        self.engines[1].cut = self.engines[2].cut = frozenset({'new'})
        self.run_for(3.0)
        self.nodes['new'].alive = False
        self.run_for(2.0)
        self.assertEqual((), self.engines[0].votes.hearing('new'))
        self.assertTrue(self.engines[0].acts('new'))

    def test_silence_that_is_expected_is_no_sign_of_life(self) -> None:
        node = self.nodes['cn1']
        node.more = {'storage_age': 9.0}
        self.run_for(2.0)
        node.more = {}
        goodbye = node.beat(leaving=True, goodbye=message.SYSTEM)
        node.alive = False
        for engine in self.engines:
            engine.monitor.heard(goodbye)
        self.run_for(2.0)
        for engine in self.engines:
            self.assertFalse(engine.suspects.is_well('cn1'))
            self.assertFalse(engine.suspects.well_to_all('cn1'))
            self.assertIsNot(True, engine.votes.running('cn1', 's1'))

    def test_silence_that_another_engine_expects_is_no_failure(self) -> None:
        self.engines[0].cut = frozenset({'cn1'})
        goodbye = self.nodes['cn1'].beat(leaving=True, goodbye=message.SYSTEM)
        self.nodes['cn1'].alive = False
        for engine in self.engines[1:]:
            engine.monitor.heard(goodbye)
        self.run_for(8.0)
        self.assertTrue(self.engines[0].monitor.suspected('cn1'))
        self.assertEqual(set(), self.acted)
        self.assertFalse(self.engines[0].suspects.is_well('cn1'))

    def test_votes_of_engines_that_are_gone_are_removed(self) -> None:
        self.engines[2].alive = False
        self.run_for(1.0)
        self.clock.time += 4000.0
        self.engines[0].monitor.echo(self.clock.time)
        self.run_for(1.0)
        self.assertNotIn('ctl2', self.database.rows)

    def test_outage_of_the_database_is_survived(self) -> None:
        self.database.away = True
        self.engines[0].votes.beat()
        self.database.away = False
        self.run_for(1.0)
        self.assertEqual(('ctl1', 'ctl2'), self.engines[0].votes.hearing('cn1'))

    def test_engines_that_do_not_hear_a_host_are_listed(self) -> None:
        self.engines[1].cut = frozenset({'cn1'})
        self.run_for(2.0)
        self.assertEqual((('ctl1',), ()), (self.engines[0].votes.missing('cn1'),
                                           self.engines[0].votes.missing('cn2')))

    def test_other_engine_reports_which_servers_run(self) -> None:
        digest = message.digest(['s1'])
        self.nodes['cn1'].more = {'kernel': 'k1', 'running': digest, 'domains': ('s1',)}
        self.run_for(1.0)
        self.engines[0].cut = frozenset({'cn1'})
        self.run_for(3.0)
        self.assertEqual((True, False), (self.engines[0].suspects.running('cn1', 's1'),
                                         self.engines[0].suspects.running('cn1', 's2')))

    def test_host_that_rebooted_without_its_server_is_known_to_engines_that_do_not_hear_it(
            self) -> None:
        self.nodes['cn1'].more = {'kernel': 'k1', 'running': message.digest(['s1']),
                                  'domains': ('s1',)}
        self.run_for(1.0)
        self.engines[0].cut = frozenset({'cn1'})
        self.nodes['cn1'].more = {'kernel': 'k2', 'running': message.digest([]), 'domains': ()}
        self.nodes['cn1'].boot = 'b2'
        self.run_for(3.0)
        self.assertIs(False, self.engines[0].suspects.running('cn1', 's1'))

    def test_last_beat_is_that_of_the_engine_that_heard_the_host_longest(self) -> None:
        self.engines[0].cut = frozenset({'cn1'})
        self.run_for(2.0)
        self.nodes['cn1'].alive = False
        died = self.clock.time
        self.assertIsNone(self.engines[0].votes.last_heard('cn1', died - 9.0))
        self.run_for(2.0)
        for engine in self.engines:
            last = engine.votes.last_heard('cn1', died + 1.0)
            assert last is not None
            # Votes are read when they are a look old.
            self.assertTrue(died - 0.3 <= last <= died + 0.3, last - died)
            # A vote may have been taken before, and written later.
            self.assertIsNone(engine.votes.last_heard('cn1', self.clock.time - 0.1))

    def test_last_beat_is_unknown_if_an_engine_does_not_say(self) -> None:
        for working in ('alive', 'echo'):
            self.begin()
            self.nodes['cn1'].alive = False
            self.run_for(1.0)
            setattr(self.engines[2], working, False)
            self.run_for(2.0)
            self.assertIsNone(self.engines[0].votes.last_heard('cn1', self.clock.time - 1.5))

    def test_engine_that_has_started_may_have_heard_a_host_before(self) -> None:
        self.nodes['cn1'].alive = False
        self.run_for(2.0)
        began = self.clock.time
        self.engines[1] = Engine('ctl1', self.clock, self.database)
        self.engines[1].monitor.expect(self.hosts)
        self.run_for(8.0)
        last = self.engines[0].votes.last_heard('cn1', began)
        assert last is not None
        self.assertGreaterEqual(last, began)
