# SPDX-License-Identifier: Apache-2.0
"""Expected durations of servers of the same kind."""

from typing import Any

import ddt

from specreds_nova.engine import model
from specreds_nova.engine.placing import kinds
from specreds_nova.tests.unit.engine.recovery import base


def _server(name: str, ready: str = 'tcp:80', **values: Any) -> model.Server:
    return base.make_server(name, **{'metadata': {'specreds:ready': ready, 'owner': name},
                                     **values})


@ddt.ddt
class KindsTest(base.RecoveryTest):
    """The duration of similar servers is expected of a new one."""

    def _expected(self, *servers: model.Server) -> dict[str, float]:
        return kinds.expected(self.context.store, servers)

    def test_own_history_precedes_that_of_similar_servers(self) -> None:
        kinds.learn(self.context.store, _server('a'), 5.0)
        kinds.learn(self.context.store, _server('b'), 9.0)
        self.assertEqual({'a': 5.0, 'b': 9.0, 'c': 9.0},
                         self._expected(_server('a'), _server('b'), _server('c')))

    def test_servers_of_an_image_are_similar(self) -> None:
        kinds.learn(self.context.store, _server('a', image='i1'), 5.0)
        self.assertEqual({'b': 5.0}, self._expected(_server('b', image='i1'),
                                                    _server('c', image='i2'), _server('d')))

    @ddt.data(_server('b', 'console:UP'), _server('b', image='i1'),
              _server('b', flavor={'vcpus': 2, 'ram': 1}),
              _server('b', flavor={'original_name': 'm1.tiny', 'vcpus': 1, 'ram': 1}))
    def test_server_of_another_kind_has_no_expectation(self, other: model.Server) -> None:
        kinds.learn(self.context.store, _server('a'), 5.0)
        self.assertEqual({}, self._expected(other))

    def test_id_of_a_kind_fits_into_the_column(self) -> None:
        self.assertEqual(36, len(kinds.kind(_server('a'))))
        self.assertEqual(kinds.kind(_server('a')), kinds.kind(_server('b')))
