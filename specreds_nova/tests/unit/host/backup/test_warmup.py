# SPDX-License-Identifier: Apache-2.0
"""The warm-up of a host's services, which is repeated until it succeeds."""

from unittest import mock

import testtools

from specreds_nova.host.backup import reconcile


class WarmingTest(testtools.TestCase):
    """A host that has booted before the services that it needs."""

    def setUp(self) -> None:
        super().setUp()
        self.this_host = mock.Mock()
        self.warming = reconcile.Warmup(self.this_host)

    def counts(self) -> dict[str, int]:
        """Return how often each service has been tried."""
        this_host = self.this_host
        return {name: method.call_count for name, method in (
            ('helpers', this_host.box.warm_up_helpers), ('storage', this_host.cinder.warm_up),
            ('claims', this_host.claims.warm_up), ('network', this_host.box.warm_up_network),
            ('processors', this_host.driver._host.get_cpu_model_names))}

    def test_warm_service_is_not_tried_again(self) -> None:
        self.warming.run()
        self.warming.run()
        self.assertEqual({'helpers': 1, 'storage': 1, 'claims': 1, 'network': 1,
                          'processors': 1}, self.counts())

    def test_failed_warm_up_is_repeated(self) -> None:
        self.this_host.cinder.warm_up.side_effect = [OSError('not yet'), OSError('not yet'), None]
        for _ in range(4):
            self.warming.run()
        self.assertEqual({'helpers': 1, 'storage': 3, 'claims': 1, 'network': 1,
                          'processors': 1}, self.counts())
