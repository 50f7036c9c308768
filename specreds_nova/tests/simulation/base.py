# SPDX-License-Identifier: Apache-2.0
"""Base class of the tests that play stories."""

from collections.abc import Callable
from typing import Any

from oslo_log import log as logging
import testtools

from specreds_nova.engine.recovery import worker as workers
from specreds_nova.tests.simulation import story
from testing.simulation import clients

_LOUD = ('specreds_nova.engine',)


class StoryTest(testtools.TestCase):
    """A test that plays stories."""

    def setUp(self) -> None:
        super().setUp()
        for name in _LOUD:
            logger = logging.getLogger(name).logger
            self.addCleanup(logger.setLevel, logger.level)
            logger.setLevel(100)

    def play(self, name: str, seed: int, faults: clients.Faults | None = None,
             attempt: Callable[..., Any] = workers.attempt, *,
             any_outcome: bool = False) -> story.Ending:
        """Play a story, and assert that nothing is wrong at its end.

        :param faults: faults of the first engine
        :param any_outcome: accept every outcome with which the server is where it should be
        """
        script = story.load(name)
        if any_outcome:
            for expected in script['expect'].values():
                expected.pop('outcome', None)
        ending = story.Story(script, seed, faults, attempt).run()
        self.assertEqual(
            [], ending.wrong, f'{name}, seed {seed}, {faults}: {ending.outcomes}')
        return ending
