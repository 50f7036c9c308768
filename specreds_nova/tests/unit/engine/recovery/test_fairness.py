# SPDX-License-Identifier: Apache-2.0
"""The order of servers by priority and project."""

import ddt
import testtools

from specreds_nova.engine import model
from specreds_nova.engine.recovery import fairness
from specreds_nova.tests.unit.engine.recovery import base

_MAX = 100


def _server(name: str, priority: int = 0, spec: int | None = None) -> model.Server:
    """Return a server of the project with which its name begins."""
    specs = {} if spec is None else {'extra_specs': {fairness.PRIORITY: str(spec)}}
    return base.make_server(name, project=name[0], flavor={'vcpus': 1, **specs},
                            metadata={fairness.PRIORITY: str(priority)})


def _ordered(*servers: model.Server) -> list[str]:
    return [server.name for server in fairness.ordered(
        servers, lambda server: fairness.priority(server, _MAX), lambda server: server.project,
        lambda server: server.name, _MAX)]


@ddt.ddt
class PriorityTest(testtools.TestCase):
    """Tenants can set priorities of their servers within limits."""

    @ddt.data((0, None, 0), (7, None, 7), (5000, None, _MAX), (-7, None, -7),
              (-5000, None, -1000), (7, 900, 900), (7, -3, -3), (7, 5000, 1000))
    @ddt.unpack
    def test_priority_is_limited(self, priority: int, spec: int | None, expected: int) -> None:
        self.assertEqual(expected, fairness.priority(_server('a1', priority, spec), _MAX))

    def test_invalid_priority_is_ignored(self) -> None:
        server = base.make_server('a', metadata={fairness.PRIORITY: 'very'},
                                  flavor={'extra_specs': {fairness.PRIORITY: 'most'}})
        self.assertEqual(0, fairness.priority(server, _MAX))


class OrderTest(testtools.TestCase):
    """Projects take turns."""

    def test_projects_take_turns(self) -> None:
        self.assertEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3'], _ordered(*map(
            _server, ('a1', 'a2', 'a3', 'b1', 'b2', 'c1'))))

    def test_priority_of_a_tenant_orders_its_own_servers(self) -> None:
        self.assertEqual(['a3', 'b1', 'a2', 'b2', 'a1'], _ordered(
            _server('a1'), _server('a2', 50), _server('a3', 100000), _server('b1'),
            _server('b2')))

    def test_priority_of_an_operator_orders_all_servers(self) -> None:
        self.assertEqual(['b2', 'b1', 'a1', 'a2'], _ordered(
            _server('a1', 1000), _server('a2', 1000), _server('b1', 0, 200),
            _server('b2', 0, 300)))

    def test_negative_priority_comes_last(self) -> None:
        self.assertEqual(['a2', 'b1', 'a1'], _ordered(
            _server('a1', -5), _server('a2'), _server('b1')))
