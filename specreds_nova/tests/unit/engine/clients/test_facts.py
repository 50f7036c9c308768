# SPDX-License-Identifier: Apache-2.0
"""Caches of what Nova reports of the cloud as a whole."""

import threading

import testtools

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


class AggregatesTest(base.ServiceTest):

    def test_hosts_in_the_same_aggregates_share_them(self) -> None:
        self.session.answer('GET', '/os-aggregates', {'aggregates': [
            {'hosts': ['h1', 'h2', 'h3'], 'metadata': {}}, {'hosts': ['h3'], 'metadata': {}}]})
        by_host = facts.Facts(rest.Service(
            self.session, self.conf, 'Nova', 'compute', '2.94')).aggregates_of_all()
        self.assertIs(by_host['h1'], by_host['h2'])
        self.assertEqual([1, 1, 2], [len(by_host[host]) for host in ('h1', 'h2', 'h3')])
