# SPDX-License-Identifier: Apache-2.0
"""An engine, the database or the broker dies during a recovery."""

from cloud.openstack import services
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.engine import base


class TestEngines(base.EngineTestCase):
    """The recovery ends as it should."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot(metadata=base.SLOW)

    def _kill(self, name: str) -> None:
        self.addCleanup(self.cloud.start_daemon, name)
        self.cloud.kill_daemon(name)

    def test_dead_engine_is_replaced_by_another(self) -> None:
        names = [services.engine(number) for number in self.cloud.settings.engine_numbers]
        if len(names) < 2:
            self.skipTest('there is no other engine; bring the cloud up with --engines 2')
        self.host(cloud_base.PRIMARY).kill()
        first = str(self.begun(self.server).engine)
        self.assertIn(first, names)
        self._kill(first)
        self.assertRecovered(self.server)
        engines = {step.engine for step in self.engine.recovery(
            self.engine.ids(self.server.id)[0]).steps}
        self.assertEqual(set(names), engines)

    def test_death_of_the_database_and_the_broker_does_not_end_the_recovery(self) -> None:
        self.host(cloud_base.PRIMARY).kill()
        first = self.begun(self.server).engine
        for name in (services.DATABASE, services.BROKER):
            self.cloud.kill_daemon(name)
        for name in (services.DATABASE, services.BROKER):
            self.cloud.start_daemon(name)
        self.assertRecovered(self.server)
        engines = {step.engine for step in self.engine.recovery(
            self.engine.ids(self.server.id)[0]).steps}
        self.assertEqual({first}, engines)
