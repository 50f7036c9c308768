# SPDX-License-Identifier: Apache-2.0
"""Hosts in the store, as engines and operators record them."""

from collections.abc import Mapping
from typing import Any
from unittest import mock

from specreds_nova.beats import message
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.store import hosts
from specreds_nova.tests.unit.engine.store import base

_WHY = ({'kind': 'heartbeat', 'words': 'silent for 0.9 s', 'time': 999.5},)


class HostsTest(base.StoreTest):

    def test_unknown_host_is_trusted(self) -> None:
        self.assertEqual(model.Host('node1'), self.store.host('node1'))
        self.assertEqual([], self.store.hosts())

    def test_change_is_read_back(self) -> None:
        changed = self.store.change_host(self.store.host('node1'), state=model.SUSPECTED,
                                         why=_WHY, flaps=1)
        self.assertEqual(
            model.Host('node1', model.SUSPECTED, generation=1, since=1000.0, why=_WHY, flaps=1),
            changed)
        self.assertEqual(changed, self.store.host('node1'))
        self.assertEqual([changed], self.store.hosts())

    def test_few_hosts_are_notable(self) -> None:
        for name, values in (('well', {}), ('suspected', {'state': model.SUSPECTED}),
                             ('spoken', {'word': model.CLEAR}), ('held', {'held': ('why',)}),
                             ('flapping', {'flaps': 1})):
            self.store.change_host(self.store.host(name), **values)
        self.assertEqual(5, self.store.host_count())
        self.assertEqual(['flapping', 'held', 'spoken', 'suspected'],
                         [host.name for host in self.store.notable_hosts()])

    def test_hosts_are_recorded_once(self) -> None:
        suspected = self.store.change_host(self.store.host('node1'), state=model.SUSPECTED)
        self.store.record({'node1': '', 'node2': 'k1', 'node3': ''})
        self.store.record({'node3': '', 'node4': 'k1'})
        self.assertEqual(suspected, self.store.host('node1'))
        self.assertEqual([1, 1, 1, 1], [host.generation for host in self.store.hosts()])
        self.assertEqual([None, 'k1', None, 'k1'], [host.kernel for host in self.store.hosts()])

    def test_boot_of_a_host_is_recorded_later(self) -> None:
        self.store.change_host(self.store.host('node1'), state=model.SUSPECTED)
        self.store.record({'node1': 'k1'})
        self.assertEqual(('k1', model.SUSPECTED, 2), self._node1())
        self.store.record({'node1': 'k2'})
        self.assertEqual(('k1', model.SUSPECTED, 2), self._node1())
        for _ in range(2):
            self.store.booted('node1', 'k2')
        self.assertEqual(('k2', model.SUSPECTED, 3), self._node1())

    def _node1(self) -> tuple[str | None, str, int]:
        host = self.store.host('node1')
        return host.kernel, host.state, host.generation

    def test_state_of_a_sentinel_is_recorded(self) -> None:
        self.store.see('node1')
        self.store.report('node1', 'sentinel', model.LIVE)
        self.store.report('node2', 'sentinel', model.UNLEASED)
        self.store.see('node3')
        before = self.store.host('node1')
        self.store.report('node1', 'sentinel', model.LIVE)
        self.assertEqual(before, self.store.host('node1'))
        self.assertEqual([model.LIVE, model.UNLEASED, None],
                         [host.sentinel for host in self.store.hosts()])
        self.assertEqual({model.LIVE: 1, model.UNLEASED: 1, None: 1}, self.store.sentinels())
        self.store.report('node1', 'voices', model.SENTINEL_ALONE)
        self.assertEqual({model.SENTINEL_ALONE: 1, None: 2, model.SILENT: 0},
                         self.store.voices())

    def test_silence_of_a_host_is_recorded_beside_everything_else(self) -> None:
        self.store.record({'node1': 'k1', 'node2': 'k1'})
        self.store.report('node1', 'voices', model.BOTH)
        before = self.store.host('node1')
        self.store.silence({'node1': 7.0, 'unknown': 7.0})
        # Whoever has read the host before may still change it.
        after = self.store.change_host(before, state=model.SUSPECTED)
        assert after is not None
        self.assertEqual((7.0, model.BOTH), (after.silent_since, after.voices))
        self.assertEqual({'node1'}, self.store.silent())
        self.assertEqual({model.SILENT: 1, None: 1}, self.store.voices())
        self.store.silence({'node1': None})
        self.assertEqual((frozenset(), None),
                         (self.store.silent(), self.store.host('node1').silent_since))

    def test_hosts_that_may_hide_no_server(self) -> None:
        for name in ('node1', 'node2', 'node3'):
            self.store.record({name: 'k1'})
        self.store.change_host(self.store.host('node2'), state=model.SUSPECTED)
        self.assertEqual({}, self.store.showing())
        # The first one is new each time: an engine that counts on it has read it before.
        for generation in (2, 3):
            self.store.show(['node1', 'node2', 'unknown'])
            self.assertEqual({'node1': generation}, self.store.showing())
        self.assertFalse(self.store.hide('node1', 2))
        self.assertTrue(self.store.host('node1').shows)
        self.assertTrue(self.store.hide('node1', 3))
        self.assertFalse(self.store.host('node1').shows)
        self.assertEqual({}, self.store.showing())

    def test_host_that_another_engine_records_meanwhile(self) -> None:
        real = hosts.record

        def late(connection: Any, kernels: Mapping[str, str]) -> list[str]:
            real(connection, {'node1': 'k1'})
            return list(kernels)
        with mock.patch.object(hosts, 'record', late):
            self.store.record({'node1': 'k1', 'node2': 'k1'})
        self.assertEqual([('node1', 1), ('node2', 1)],
                         [(host.name, host.generation) for host in self.store.hosts()])

    def test_host_is_forgotten(self) -> None:
        self.store.change_host(self.store.host('node1'), state=model.SUSPECTED)
        self.assertTrue(self.store.forget('node1'))
        self.assertEqual([], self.store.hosts())
        self.assertTrue(self.store.forget('node1'))

    def test_fenced_host_is_not_forgotten(self) -> None:
        self.store.change_host(self.store.host('node1'), state=model.FENCED)
        self.assertFalse(self.store.forget('node1'))
        self.assertEqual(['node1'], [host.name for host in self.store.hosts()])

    def test_host_that_is_being_recovered_is_not_forgotten(self) -> None:
        recovery = self.created()
        self.assertFalse(self.store.forget(recovery.host))
        self.end(recovery)
        self.assertTrue(self.store.forget(recovery.host))

    def test_hosts_are_listed_by_name(self) -> None:
        for name in ('node2', 'Node1', 'node1'):
            self.store.say(name, model.CLEAR, None)
        self.assertEqual(['Node1', 'node1', 'node2'], [host.name for host in self.store.hosts()])

    def test_one_of_two_engines_changes_a_new_host(self) -> None:
        seen = self.store.host('node1')
        self.assertIsNotNone(self.store.change_host(seen, state=model.SUSPECTED))
        self.assertIsNone(self.store.change_host(seen, state=model.FENCED))
        self.assertEqual(model.SUSPECTED, self.store.host('node1').state)

    def test_one_of_two_engines_changes_a_known_host(self) -> None:
        seen = self.store.say('node1', model.CLEAR, None)
        self.assertIsNotNone(self.store.change_host(seen, state=model.SUSPECTED))
        self.assertIsNone(self.store.change_host(seen, state=model.FENCED))
        self.assertEqual(model.SUSPECTED, self.store.host('node1').state)

    def test_since_is_the_time_of_the_last_change_of_state(self) -> None:
        suspected = self.store.change_host(model.Host('node1'), state=model.SUSPECTED)
        assert suspected is not None
        self.clock.time += 5
        flapping = self.store.change_host(suspected, state=model.SUSPECTED, flaps=2)
        assert flapping is not None
        self.assertEqual((1000.0, 2), (flapping.since, flapping.flaps))
        trusted = self.store.change_host(flapping, state=model.TRUSTED, why=())
        assert trusted is not None
        self.assertEqual((1005.0, ()), (trusted.since, trusted.why))

    def test_word_of_an_operator_survives_changes_by_engines(self) -> None:
        seen = self.store.change_host(model.Host('node1'), state=model.SUSPECTED)
        assert seen is not None
        said = self.store.say('node1', model.SUSPECT, 'it smokes')
        self.assertEqual((model.SUSPECTED, model.SUSPECT, 'it smokes'),
                         (said.state, said.word, said.word_reason))
        self.assertIsNone(self.store.change_host(seen, state=model.TRUSTED))
        self.assertIsNone(self.store.say('node1', None, None).word)

    def test_seen_host_is_listed(self) -> None:
        seen = self.store.see('node1')
        self.assertEqual(model.Host('node1', generation=1, since=1000.0), seen)
        self.clock.time += 5
        self.assertEqual(seen, self.store.see('node1'))
        self.assertEqual([seen], self.store.hosts())

    def test_first_time_of_a_goodbye_counts(self) -> None:
        for at in (1000.0, 1000.2):
            # Two engines hear it a moment apart.
            host = self.store.leave('node1', message.SYSTEM, at)
            self.assertEqual((message.SYSTEM, 1000.0), (host.goodbye, host.goodbye_at))
        self.assertEqual(host, self.store.host('node1'))
        host = self.store.leave('node1', None, None)
        self.assertEqual((None, None), (host.goodbye, host.goodbye_at))

    def test_held_host_has_reasons(self) -> None:
        self.assertEqual((), self.store.see('node1').held)
        changed = self.store.change_host(self.store.host('node1'), held=('8 of 9 are silent',))
        self.assertEqual(changed, self.store.host('node1'))
        assert changed is not None
        self.assertEqual((model.HELD, ('8 of 9 are silent',)), (changed.shown, changed.held))

    def test_invalid_change_raises(self) -> None:
        self.assertRaises(exception.Invalid, self.store.change_host, model.Host('node1'),
                          name='node2')
