# SPDX-License-Identifier: Apache-2.0
"""Races between a primary and its backup, and proof that a broken protocol loses one."""

import os
import pathlib
import random
import tempfile
from typing import Any

import fixtures
import hypothesis
from hypothesis import stateful

from specreds_cinder.tests.functional import base
from specreds_cinder.tests.race import machine
from specreds_cinder.tests.race import site as sites

_ROUNDS = 25
_STEPS = 14
_SEED = 'SPECREDS_RACE_SEED'


class RaceTestCase(base.FunctionalTestCase):
    """A test in which races take place."""

    def site(self, make: sites.ProtocolFactory | None = None) -> sites.Site:
        """Prepare for rounds, until the test ends.

        :param make: makes the protocol under test; None for the real one
        """
        # A short path: unix sockets go into it.
        scratch = pathlib.Path(tempfile.mkdtemp(prefix='race'))
        self.addCleanup(scratch.rmdir)
        options: dict[str, Any] = {'make': make} if make is not None else {}
        site = sites.Site(self.ceph.conf, self.ceph.admin_conf, scratch, **options)
        self.addCleanup(site.__exit__, None, None, None)
        return site


class RaceTest(RaceTestCase):
    """The protocol as it is."""

    def test_races(self) -> None:
        """Nothing that was acknowledged is lost, and nothing is acknowledged that is lost."""
        seed = int(os.environ.get(_SEED) or random.SystemRandom().randrange(2**32))
        self.useFixture(fixtures.Timeout(1800, gentle=True))
        race, _results = machine.machine(self.site())
        print(f'{_SEED}={seed}')
        stateful.run_state_machine_as_test(
            hypothesis.seed(seed)(race), settings=hypothesis.settings(
                max_examples=_ROUNDS, stateful_step_count=_STEPS, deadline=None, database=None,
                phases=[hypothesis.Phase.generate], print_blob=True,
                suppress_health_check=list(hypothesis.HealthCheck)))
