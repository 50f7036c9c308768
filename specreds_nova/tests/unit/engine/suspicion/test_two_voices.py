# SPDX-License-Identifier: Apache-2.0
"""Which hosts are suspected of which nova-compute and sentinel are heard, or not."""

from typing import Any

from specreds_nova.beats import message
from specreds_nova.beats import voice
from specreds_nova.beats import voices as all_voices
from specreds_nova.engine import model
from specreds_nova.engine.suspicion import conf as detection_conf
from specreds_nova.engine.suspicion import evidence
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import monitor
from specreds_nova.engine.suspicion import suspects
from specreds_nova.engine.suspicion import watched
from specreds_nova.engine.suspicion import weighing
from specreds_nova.tests.unit.beats import test_voices
from specreds_nova.tests.unit.engine.suspicion import base


class Peers:
    """No other engines."""

    @staticmethod
    def hearing(_host: str) -> tuple[str, ...]:
        """Return nobody."""
        return ()

    holding = hearing


class TwoVoicesTest(base.CloudTestCase):
    """A cloud of which the sentinels are heard, too."""

    def begin(self) -> None:
        """Let the sentinels of all hosts speak."""
        self.sentinels: dict[str, Any] = {}
        self.facts: dict[str, Any] = {}
        self.voices: all_voices.Voices | None = None
        self.drained = 0
        super().begin()
        self.voices = all_voices.Voices(self.clock.now, (test_voices._MASTER,))
        self.monitor = monitor.Monitor(self.clock, self.witness, self.settings,
                                       voices=self.voices)
        self.sentinels = {name: test_voices.Sentinel(name) for name in self.nodes}
        for node in self.nodes.values():
            node.more['kernel'] = 'k1'
        self.run_for(10)
        self.witness.events.clear()

    def run_for(self, seconds: float) -> None:
        """Let time pass, with beats of both voices."""
        if self.voices is None:
            super().run_for(seconds)
            return
        for _ in range(round(seconds / voice.INTERVAL)):
            for sentinel in self.sentinels.values():
                sentinel.take(self.voices.hear([(sentinel.beat(**self.facts), 'a')]))
            for _ in range(5):
                super().run_for(voice.INTERVAL / 5)
                self.voices.empty(self.clock.time)

    def kill(self) -> Any:
        """Turn the first host off, and return its sentinel."""
        self.nodes['cn1'].alive = False
        return self.sentinels.pop('cn1')

    def view(self) -> watched.View:
        """Return the first host as the engine sees it."""
        view = self.monitor.look('cn1')
        assert view is not None
        return view

    def act(self, **more: Any) -> list[str]:
        """Return the reasons that hold the recoveries of the first host back."""
        return gates.Gates((gates.Speaking(),)).reasons(self.monitor.facts('cn1', more))

    def test_machine_that_dies_is_suspected_as_soon_as_without_the_second_voice(self) -> None:
        self.kill()
        self.run_for(1.1)
        self.assertEqual({'cn1'}, self.suspected())
        self.assertEqual([evidence.SILENCE], [
            piece['kind'] for piece in self.view().why])

    def test_nova_compute_that_dies_beside_its_sentinel_is_no_suspicion(self) -> None:
        self.nodes['cn1'].alive = False
        self.run_for(60.0)
        self.assertEqual(set(), self.suspected())
        view = self.view()
        self.assertEqual((all_voices.HEARD, True), (view.voice, view.speaks))
        # It gets no backups, and keeps other engines from suspecting it.
        self.assertNotIn('cn1', self.monitor.healthy())
        vote = self.monitor.vote('e1', ('cn1',))
        self.assertEqual(((), ('cn1',), {}), (vote.silent, vote.expected, dict(vote.heard)))
        # It does not count for a switch that has failed.
        self.assertEqual(frozenset({'cn1'}), self.monitor.facts('cn1').silent)
        sentinel = self.sentinels.pop('cn1')
        self.run_for(all_voices.ALONE - 0.2)
        self.assertEqual(set(), self.suspected())
        sentinel.number += 18
        self.sentinels['cn1'] = sentinel
        self.run_for(1.0)
        self.assertEqual(all_voices.HEARD, self.view().voice)
        self.sentinels.pop('cn1')
        self.run_for(all_voices.ALONE + 0.2)
        self.assertEqual({'cn1'}, self.suspected())
        self.assertLess(self.monitor.facts('cn1').silence, all_voices.ALONE + 0.5)

    def test_sentinel_that_is_stopped_beside_a_silent_nova_compute_may_return(self) -> None:
        self.nodes['cn1'].alive = False
        self.run_for(10.0)
        assert self.voices is not None
        sentinel = self.sentinels.pop('cn1')
        self.voices.hear([(sentinel.beat(kind=voice.Kind.GOODBYE), 'a')])
        self.run_for(weighing.RETURN_S - 2.0)
        self.assertEqual((set(), all_voices.LEFT), (self.suspected(), self.view().voice))
        self.assertEqual(('cn1',), self.monitor.vote('e1', ('cn1',)).expected)
        self.run_for(4.0)
        self.assertEqual({'cn1'}, self.suspected())
        self.assertAlmostEqual(weighing.RETURN_S + 2.0, self.monitor.facts('cn1').silence, delta=1)

    def test_sentinel_that_dies_beside_its_nova_compute_is_no_suspicion(self) -> None:
        self.sentinels.pop('cn1')
        self.run_for(60.0)
        self.assertEqual(set(), self.suspected())
        self.assertEqual(all_voices.SILENT, self.view().voice)

    def test_silent_nova_compute_beside_a_sentinel_without_ceph_is_a_suspicion(self) -> None:
        self.nodes['cn1'].alive = False
        self.run_for(10.0)
        self.facts = {'storage_age': 6.0}
        self.run_for(0.3)
        self.assertEqual({'cn1'}, self.suspected())
        self.assertEqual([evidence.STORAGE, evidence.SILENCE], sorted(
            (piece['kind'] for piece in self.view().why), reverse=True))

    def test_sentinel_of_another_boot_says_nothing_of_the_servers_that_ran_before(self) -> None:
        self.nodes['cn1'].alive = False
        self.facts = {'kernel': voice.kernel_id('k2'), 'boot': b'boot-two'}
        self.sentinels = {'cn1': self.sentinels['cn1']}
        for node in self.nodes.values():
            node.alive = node.name != 'cn1'
        self.run_for(3.0)
        self.assertEqual((all_voices.HEARD, False), (self.view().voice, self.view().speaks))
        self.assertEqual({'cn1'}, self.suspected())

    def test_engine_that_was_deaf_has_not_heard_a_dead_sentinel(self) -> None:
        self.kill()
        self.run_for(2.0)
        died = self.clock.now()
        self.assertEqual({'cn1'}, self.suspected())
        assert self.voices is not None
        # Datagrams are lost, which may have been of cn1.
        self.voices.empty(self.clock.now(), lost=1)
        heard: Any = Peers()
        seen = suspects.Suspects(self.monitor, self.clock, heard, gates.Gates(()))
        self.assertEqual((True, False), (seen.speaks('cn1'), seen.spoke_after('cn1', died)))

    def test_sentinel_that_returns_holds_back_what_its_silence_has_begun(self) -> None:
        sentinel = self.kill()
        self.run_for(2.0)
        self.assertEqual([], self.act())
        self.sentinels['cn1'] = sentinel
        sentinel.number += 20
        self.run_for(1.0)
        self.assertEqual({'cn1'}, self.suspected())
        self.assertIn('start nova-compute', self.act()[0])
        heard: Any = Peers()
        seen = suspects.Suspects(self.monitor, self.clock, heard, gates.Gates(()))
        self.assertEqual((True, False, False),
                         (seen.speaks('cn1'), seen.lost('cn1'), seen.is_well('cn1')))
        self.assertTrue(seen.spoke_after('cn1', self.clock.now() - 1.0))
        # An operator knows better.
        self.monitor.word('cn1', model.SUSPECT, 'it burns')
        self.assertEqual([], self.act())
        self.monitor.word('cn1', None)
        self.nodes['cn1'].alive = True
        self.run_for(2.0)
        self.assertEqual((set(), []), (self.suspected(), self.act()))

    def test_goodbye_of_a_nova_compute_excuses_its_sentinel_for_a_minute(self) -> None:
        goodbye = self.nodes['cn1'].beat(leaving=True, goodbye=message.SERVICE)
        self.monitor.heard(goodbye)
        self.nodes['cn1'].alive = False
        self.run_for(120.0)
        self.assertEqual(set(), self.suspected())
        self.sentinels.pop('cn1')
        self.run_for(weighing.RETURN_S - 2.0)
        self.assertEqual(set(), self.suspected())
        self.assertIn('cn1', self.monitor.vote('e1', ()).expected)
        self.run_for(4.0)
        self.assertEqual({'cn1'}, self.suspected())
        self.assertEqual((('cn1',), ()), (self.monitor.vote('e1', ()).silent,
                                          self.monitor.vote('e1', ()).expected))

    def test_goodbye_of_both_is_expected_for_as_long_as_before(self) -> None:
        self.monitor.heard(self.nodes['cn1'].beat(leaving=True, goodbye=message.SERVICE))
        assert self.voices is not None
        self.voices.hear([(self.kill().beat(kind=voice.Kind.GOODBYE), 'a')])
        self.run_for(600.0)
        self.assertEqual(set(), self.suspected())

    def test_goodbye_of_a_sentinel_alone_leaves_the_other_voice(self) -> None:
        assert self.voices is not None
        self.voices.hear([(self.sentinels.pop('cn1').beat(kind=voice.Kind.GOODBYE), 'a')])
        self.run_for(60.0)
        self.assertEqual(set(), self.suspected())
        self.nodes['cn1'].alive = False
        self.run_for(1.1)
        self.assertEqual({'cn1'}, self.suspected())

    def test_vote_tells_when_either_voice_was_heard_last(self) -> None:
        self.nodes['cn1'].alive = False
        self.run_for(10.0)
        self.sentinels.pop('cn1')
        self.run_for(3.0)
        vote = self.monitor.vote('e1', ())
        self.assertEqual(('cn1',), vote.silent)
        self.assertAlmostEqual(3.0, vote.ages['cn1'], delta=0.2)

    def test_sentinel_that_has_lost_its_lease_says_so_itself(self) -> None:
        self.nodes['cn1'].more |= {'lease': message.LEASED, 'sentinel_age': 1.0}
        self.run_for(0.5)
        self.assertEqual((model.LIVE, True), (
            self.monitor.sentinels()['cn1'], self.monitor.hides('cn1', 0.0)))
        self.nodes['cn1'].alive = False
        self.facts = {'lease': message.UNLEASED}
        self.run_for(0.5)
        self.assertEqual((model.UNLEASED, False), (
            self.monitor.sentinels()['cn1'], self.monitor.hides('cn1', 0.0)))

    def test_lease_that_was_given_up_stays_so_until_nova_compute_reports_later(self) -> None:
        self.nodes['cn1'].more |= {'lease': message.LEASED, 'sentinel_age': 1.0}
        self.run_for(0.5)
        self.nodes['cn1'].alive = False
        self.run_for(0.5)
        self.facts = {'lease': message.UNLEASED}
        self.run_for(0.5)
        sentinel = self.kill()
        self.run_for(5.0)
        self.assertEqual(all_voices.SILENT, self.view().voice)
        self.assertEqual(model.UNLEASED, self.monitor.sentinels()['cn1'])
        # It may have got a lease since that.
        self.nodes['cn1'].alive = True
        self.run_for(0.5)
        self.assertEqual(model.LIVE, self.monitor.sentinels()['cn1'])
        self.sentinels['cn1'] = sentinel
        sentinel.number += 60
        self.run_for(0.5)
        self.assertEqual(model.UNLEASED, self.monitor.sentinels()['cn1'])

    def test_lease_of_a_host_whose_nova_compute_was_never_heard(self) -> None:
        self.monitor.forget('cn1')
        self.nodes['cn1'].alive = False
        self.facts = {'lease': message.UNLEASED}
        self.run_for(0.5)
        self.kill()
        self.run_for(5.0)
        self.assertEqual(model.UNLEASED, self.monitor.sentinels()['cn1'])

    def test_operators_see_which_voices_are_heard(self) -> None:
        self.assertEqual({model.BOTH}, set(self.monitor.voices().values()))
        self.nodes['cn1'].alive = False
        self.sentinels.pop('cn2')
        self.sentinels['cn3'] = test_voices.Sentinel('cn3', test_voices._OTHER)
        self.sentinels['cn4'].take = lambda _answers: None
        self.run_for(4.0)
        self.assertEqual({'cn1': model.SENTINEL_ALONE, 'cn2': model.NOVA_ALONE,
                          'cn3': model.UNAUTHENTICATED, 'cn4': model.HALF_DEAF,
                          'cn5': model.BOTH}, self.monitor.voices())
        assert self.voices is not None
        self.voices.use(())
        self.assertEqual({}, self.monitor.voices())

    def test_operators_see_since_when_a_host_is_silent(self) -> None:
        self.assertEqual({None}, set(self.monitor.silences().values()))
        self.nodes['cn1'].alive = False
        self.run_for(4.0)
        self.assertEqual({None}, set(self.monitor.silences().values()))
        died = self.clock.now()
        self.sentinels.pop('cn1')
        self.run_for(4.0)
        silences = self.monitor.silences()
        since = silences.pop('cn1')
        assert since is not None
        self.assertTrue(died - 0.5 < since <= died)
        self.assertEqual({None}, set(silences.values()))
        # An engine that may be deaf knows of no silence.
        self.clock.time += 2.0
        self.assertEqual({}, self.monitor.silences())

    def test_gate_is_among_the_gates_of_hosts(self) -> None:
        group = type('Group', (), {'too_many_share': 0.5, 'flap_count': 3})
        reasons = detection_conf.host_gates(group).reasons(gates.Facts('cn1', speaks=True))
        self.assertIn('the sentinel of cn1 is heard', reasons[-1])
