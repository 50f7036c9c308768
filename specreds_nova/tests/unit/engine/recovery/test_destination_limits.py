# SPDX-License-Identifier: Apache-2.0
"""Which host runs a backup."""

from specreds_nova.engine import model
from specreds_nova.engine.detection import servers
from specreds_nova.tests.unit.engine.recovery import base


class ChoicesTest(base.RecoveryTest):
    """Backups are spread, and not more than there may be."""

    def test_the_host_with_the_fewest(self) -> None:
        choices = self.context.destinations
        chosen = [choices.choose(str(number), ['h2', 'h3', 'h4']) for number in range(6)]
        self.assertEqual(['h2', 'h3', 'h4', 'h2', 'h3', 'h4'], chosen)

    def test_those_of_other_engines_count(self) -> None:
        self.make_recovery('x', state=model.RACING, destination='h2')
        self.assertEqual('h3', self.context.destinations.choose('mine', ['h2', 'h3']))

    def test_a_host_that_failed_before_is_the_last_choice(self) -> None:
        choices = self.context.destinations
        self.assertEqual('h3', choices.choose('a', ['h2', 'h3'], avoid=['h2']))
        self.assertEqual('h2', choices.choose('a', ['h2'], avoid=['h2']))

    def test_as_many_on_a_host_as_there_may_be(self) -> None:
        choices = self.make_context(servers.Limits(0, 1)).destinations
        self.assertEqual(['h2', 'h3', None],
                         [choices.choose(str(number), ['h2', 'h3']) for number in range(3)])
        choices.leave('0')
        self.assertEqual('h2', choices.choose('2', ['h2', 'h3']))

    def test_as_many_on_all_hosts_as_there_may_be(self) -> None:
        choices = self.make_context(servers.Limits(2, 0)).destinations
        choices.enter('0')
        self.assertIsNone(choices.full())
        self.make_recovery('x', state=model.RACING)
        self.clock.sleep(1.0)
        self.assertIsNotNone(choices.full())
        choices.leave('0')
        self.assertIsNone(choices.full())
