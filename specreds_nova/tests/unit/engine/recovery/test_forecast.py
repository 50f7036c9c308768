# SPDX-License-Identifier: Apache-2.0
"""Destinations that are requested before a host fails."""

from unittest import mock

import testtools

from specreds_nova.engine import exception
from specreds_nova.engine.recovery import forecast
from specreds_nova.tests.unit.engine.recovery import base


class ForecastTest(testtools.TestCase):
    """Two hosts with a server each."""

    def setUp(self) -> None:
        super().setUp()
        self.compute = mock.Mock()
        self.compute.servers.side_effect = lambda host: [base.make_server(f'on-{host}')]
        self.gates = mock.Mock()
        self.gates.reasons.return_value = []
        self.stopping = mock.Mock(return_value=False)
        self.forecast = forecast.Forecast(self.compute, self.gates, lambda: ['h1', 'h2'],
                                          self.stopping)

    def forecasts(self) -> list[str]:
        """Return the servers that the scheduler was asked about."""
        return [call.args[0].id for call in self.compute.forecast.mock_calls]

    def test_all_protected_servers_are_asked_about(self) -> None:
        self.assertEqual(2, self.forecast.look())
        self.assertEqual(['on-h1', 'on-h2'], self.forecasts())

    def test_unprotected_servers_are_left_out(self) -> None:
        self.gates.reasons.side_effect = lambda server: ['no'] if server.id == 'on-h1' else []
        self.assertEqual(1, self.forecast.look())
        self.assertEqual(['on-h2'], self.forecasts())

    def test_scheduler_that_does_not_answer_ends_the_round(self) -> None:
        self.compute.forecast.side_effect = exception.Unreachable('away')
        self.assertEqual(0, self.forecast.look())
        self.assertEqual(['on-h1'], self.forecasts())

    def test_engine_that_stops_asks_no_more(self) -> None:
        self.stopping.return_value = True
        self.assertEqual(0, self.forecast.look())
