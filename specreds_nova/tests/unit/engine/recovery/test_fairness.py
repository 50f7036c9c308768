# SPDX-License-Identifier: Apache-2.0
"""Who gets the next turn."""

import ddt
import testtools

from specreds_nova.engine import model
from specreds_nova.engine.recovery import fairness
from specreds_nova.tests.unit.engine.recovery import base

_MAX = 100


def _server(name: str, told: int = 0, spec: int | None = None) -> model.Server:
    """Return a server of the project that its name begins with."""
    specs = {} if spec is None else {'extra_specs': {fairness.PRIORITY: str(spec)}}
    return base.make_server(name, project=name[0], flavor={'vcpus': 1, **specs},
                            metadata={fairness.PRIORITY: str(told)})


def _ordered(*servers: model.Server) -> list[str]:
    return [server.name for server in fairness.ordered(
        servers, lambda server: fairness.priority(server, _MAX), lambda server: server.project,
        lambda server: server.name, _MAX)]


@ddt.ddt
class PriorityTest(testtools.TestCase):
    """Tenants can give their servers a priority, but not any."""

    @ddt.data((0, None, 0), (7, None, 7), (5000, None, _MAX), (-7, None, -7),
              (-5000, None, -1000), (7, 900, 900), (7, -3, -3), (7, 5000, 1000))
    @ddt.unpack
    def test_priority(self, told: int, spec: int | None, expected: int) -> None:
        self.assertEqual(expected, fairness.priority(_server('a1', told, spec), _MAX))

    def test_nonsense(self) -> None:
        server = base.make_server('a', metadata={fairness.PRIORITY: 'very'},
                                  flavor={'extra_specs': {fairness.PRIORITY: 'most'}})
        self.assertEqual(0, fairness.priority(server, _MAX))


class OrderTest(testtools.TestCase):
    """Projects take turns."""

    def test_projects_take_turns(self) -> None:
        self.assertEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3'], _ordered(*map(
            _server, ('a1', 'a2', 'a3', 'b1', 'b2', 'c1'))))

    def test_tenants_order_their_own(self) -> None:
        self.assertEqual(['a3', 'b1', 'a2', 'b2', 'a1'], _ordered(
            _server('a1'), _server('a2', 50), _server('a3', 100000), _server('b1'),
            _server('b2')))

    def test_operators_order_all(self) -> None:
        self.assertEqual(['b2', 'b1', 'a1', 'a2'], _ordered(
            _server('a1', 1000), _server('a2', 1000), _server('b1', 0, 200),
            _server('b2', 0, 300)))

    def test_what_can_wait_comes_last(self) -> None:
        self.assertEqual(['a2', 'b1', 'a1'], _ordered(
            _server('a1', -5), _server('a2'), _server('b1')))
