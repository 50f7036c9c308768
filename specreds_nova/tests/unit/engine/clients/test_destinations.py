# SPDX-License-Identifier: Apache-2.0
"""Destinations by Nova's scheduler, with Placement as the fallback."""

from collections.abc import Collection
from typing import Any
from unittest import mock

import fixtures
import testtools

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.clients import destinations
from specreds_nova.engine.clients import groups
from specreds_nova.tests.unit.engine.recovery import base


class Scheduler:
    """A scheduler that returns two hosts at once.

    :ivar asked: the ignored hosts, and those of the group, of each question
    """

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], list[str]]] = []
        self.hosts = ['h2', 'h3', 'h4', 'h5']
        self.away = False

    def spec(self, server: model.Server) -> Any:
        """Return one request spec for all servers."""
        del server
        if self.away:
            raise exception.Unreachable('away')
        return self

    def select(self, server: model.Server, ignore: Collection[str],
               group_hosts: list[str]) -> list[str]:
        """Return the best two hosts."""
        del server
        self.asked.append((sorted(ignore), group_hosts))
        return [host for host in self.hosts if host not in ignore and (
            not group_hosts or host in group_hosts)][:2]

    def permits(self, server: model.Server, host: str) -> bool:
        """Return whether a host is one of those known."""
        del server
        if self.away:
            raise exception.Unreachable('away')
        return host in self.hosts


class DestinationsTest(testtools.TestCase):
    """A server on host h1."""

    def setUp(self) -> None:
        super().setUp()
        self.scheduler = Scheduler()
        self.candidates = mock.Mock()
        self.candidates.hosts.return_value = ['h1', 'h9', 'h2']
        self.facts = mock.Mock()
        self.facts.services.return_value = {
            f'h{number}': {'state': 'up', 'status': 'enabled'} for number in range(1, 10)}
        self.where: dict[str, str] = {}
        # Hosts in other cells.
        self.elsewhere: set[str] = set()
        self.now = 1000.0
        self.useFixture(fixtures.MockPatch('time.monotonic', lambda: self.now))
        self.destinations = destinations.Destinations(
            self.scheduler, self.candidates, self.facts, groups.Groups(lambda _: self.where),
            lambda host, hosts: [other for other in hosts if other not in self.elsewhere])
        self.server = base.make_server('a')

    def hosts(self, server: model.Server | None = None, **placed: str) -> list[str]:
        """Return the hosts for a server."""
        return self.destinations.hosts(server or self.server, placed, ())

    def member(self, policy: str) -> model.Server:
        """Return the server as a member of a group with b and c."""
        return base.make_server('a', group={'id': 'g', 'policy': policy,
                                            'members': ['a', 'b', 'c']})

    def test_scheduler_selects_more_than_it_returns_at_once(self) -> None:
        self.assertEqual(['h2', 'h3', 'h4', 'h5'], self.hosts())
        self.assertEqual([(['h1'], []), (['h1', 'h2', 'h3'], []),
                          (['h1', 'h2', 'h3', 'h4', 'h5'], [])], self.scheduler.asked)
        self.candidates.hosts.assert_not_called()

    def test_placement_answers_if_the_scheduler_does_not(self) -> None:
        self.scheduler.away = True
        self.assertEqual(['h9', 'h2'], self.hosts())

    def test_hosts_of_other_cells_that_placement_names_are_left_out(self) -> None:
        self.scheduler.away = True
        self.elsewhere = {'h9'}
        self.assertEqual(['h2'], self.hosts())

    def test_hosts_that_are_down_are_left_out(self) -> None:
        self.facts.services.return_value['h2']['state'] = 'down'
        self.assertEqual(['h3', 'h4', 'h5'], self.hosts())

    def test_equal_servers_share_an_answer_while_it_is_new(self) -> None:
        self.hosts()
        questions = len(self.scheduler.asked)
        self.assertEqual(['h2', 'h3', 'h4', 'h5'], self.hosts(base.make_server('b')))
        self.assertEqual(questions, len(self.scheduler.asked))
        self.now += 2.0
        self.hosts()
        self.assertEqual(2 * questions, len(self.scheduler.asked))

    def test_shared_answer_is_not_used_once_a_host_has_refused(self) -> None:
        self.hosts()
        self.scheduler.hosts = ['h5']
        self.assertEqual(['h5'], self.destinations.hosts(self.server, {}, {'h2'}))

    def test_members_on_the_failed_host_do_not_bind_an_affinity(self) -> None:
        self.where = {'a': 'h1', 'b': 'h1', 'c': 'h1'}
        self.assertEqual({'h2', 'h3', 'h4', 'h5'}, set(self.hosts(self.member('affinity'))))
        self.assertEqual(['h3'], self.hosts(self.member('affinity'), b='h3'))
        self.assertEqual((['h1'], ['h3']), self.scheduler.asked[-1])

    def test_hosts_that_an_anti_affinity_forbids_are_ignored(self) -> None:
        self.where = {'a': 'h1', 'b': 'h2', 'c': 'h1'}
        self.assertEqual(['h4', 'h5'], self.hosts(self.member('anti-affinity'), c='h3'))
        self.assertEqual(['h1', 'h2', 'h3'], self.scheduler.asked[0][0])

    def test_permission_falls_back_on_the_aggregates(self) -> None:
        self.candidates.allowed.return_value = True
        self.assertFalse(self.destinations.permits(self.server, 'h9'))
        self.scheduler.away = True
        self.assertTrue(self.destinations.permits(self.server, 'h9'))
        self.candidates.allowed.assert_called_once_with(self.server, 'h9')
