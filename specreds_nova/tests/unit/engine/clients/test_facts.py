# SPDX-License-Identifier: Apache-2.0
"""Caches of what Nova reports of the cloud as a whole."""

import threading
from unittest import mock

import testtools

from specreds_nova.engine import exception
from specreds_nova.engine.clients import facts
from specreds_nova.engine.clients import rest
from specreds_nova.tests.unit.engine.clients import base


class CachedTest(testtools.TestCase):

    def test_valid_value_is_returned_while_it_is_being_changed(self) -> None:
        cached = facts.Cached(lambda: 1, 60.0)
        self.assertEqual(1, cached.get())
        thread = threading.Thread(
            target=lambda: cached.change(lambda value: value + cached.get()), daemon=True)
        thread.start()
        thread.join(30.0)
        self.assertFalse(thread.is_alive())
        self.assertEqual(2, cached.get())

    def test_forgotten_value_is_read_again(self) -> None:
        values = iter((1, 2))
        cached = facts.Cached(lambda: next(values), 60.0)
        cached.get()
        cached.forget()
        self.assertEqual(2, cached.get())


class OutdatedTest(base.ServiceTest):
    """Nova while the database of one of several cells is away."""

    def setUp(self) -> None:
        super().setUp()
        clock = mock.patch.object(facts, 'time')
        self.clock = clock.start()
        self.addCleanup(clock.stop)
        self.clock.monotonic.return_value = 1000.0
        self.facts = facts.Facts(rest.Service(self.session, 'Nova', 'compute', '2.94'))
        self.session.answer('GET', '/os-server-groups', {'server_groups': [
            {'id': 'g', 'policy': 'affinity', 'members': ['a', 'b']}]}, {'server_groups': []})
        self.session.answer('GET', '/os-hypervisors/detail', {'hypervisors': [
            {'id': 'p1', 'service': {'host': 'h1'}}]})

    def fail_after(self, seconds: float) -> None:
        """Let time pass, and have Nova fail from then on."""
        self.clock.monotonic.return_value += seconds
        for path in ('/os-server-groups', '/os-hypervisors/detail'):
            self.session.fail('GET', path, 500)
        self.session.calls.clear()

    def test_groups_and_hosts_that_nova_cannot_list_stay_what_they_were(self) -> None:
        self.facts.groups()
        self.facts.host('p1')
        self.fail_after(1000.0)
        self.assertEqual({'a', 'b'}, {*self.facts.groups()})
        self.assertEqual('h1', self.facts.host('p1'))

    def test_nova_that_fails_is_not_asked_for_each_recovery(self) -> None:
        self.facts.groups()
        self.facts.host('p1')
        self.fail_after(1000.0)
        for _ in range(5):
            self.facts.groups()
            self.assertIsNone(self.facts.host('elsewhere'))
        self.assertIsNotNone(self.facts.groups_at_hand())
        self.assertEqual(2, len(self.session.calls))

    def test_nova_that_answers_again_is_heard(self) -> None:
        self.facts.groups()
        self.fail_after(1000.0)
        self.facts.groups()
        self.session.answer('GET', '/os-server-groups', {'server_groups': []})
        self.clock.monotonic.return_value += 60.0
        self.assertEqual({}, self.facts.groups())

    def test_what_is_too_old_is_not_used(self) -> None:
        self.facts.groups()
        self.fail_after(1000.0)
        self.facts.groups()
        self.clock.monotonic.return_value += 3600.0
        self.raised(exception.Unreachable, self.facts.groups)

    def test_nova_that_has_never_answered_is_unreachable(self) -> None:
        self.fail_after(0.0)
        self.raised(exception.Unreachable, self.facts.groups)


class AggregatesTest(base.ServiceTest):

    def test_hosts_in_the_same_aggregates_share_them(self) -> None:
        self.session.answer('GET', '/os-aggregates', {'aggregates': [
            {'hosts': ['h1', 'h2', 'h3'], 'metadata': {}}, {'hosts': ['h3'], 'metadata': {}}]})
        by_host = facts.Facts(rest.Service(
            self.session, 'Nova', 'compute', '2.94')).aggregates_of_all()
        self.assertIs(by_host['h1'], by_host['h2'])
        self.assertEqual([1, 1, 2], [len(by_host[host]) for host in ('h1', 'h2', 'h3')])
