# SPDX-License-Identifier: Apache-2.0
"""What the tests of the volume service share."""

from collections.abc import Callable
import threading
from typing import Any

from cinder import context
import fixtures
from oslo_config import cfg
from oslo_config import fixture as config_fixture
import testtools

from specreds_cinder.tests.unit import backends

HOST = 'node@rbd'
SECONDS = 30


class ServiceTestCase(testtools.TestCase):

    hosts: tuple[str, ...] = (HOST,)

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.conf = self.useFixture(config_fixture.Config(cfg.CONF))
        self.back = self.useFixture(backends.Backends(*self.hosts))
        self.context = context.RequestContext('u1', 'p1', is_admin=False,
                                              request_id='req-1')
        self.service = self.back.services[self.hosts[0]]
        self.worker = self.back.workers[self.hosts[0]]

    def create(self, *volumes: dict[str, str], **changes: Any) -> dict[str, Any]:
        """Superpose volumes, by default a new one on each host."""
        wanted = volumes or tuple(self.back.add_volume(host) for host in self.hosts)
        view: dict[str, Any] = self.service.create(self.context, **{
            'superposition_id': 's1', 'volumes': wanted, 'server_id': 'server', 'reason': 'why',
            **changes})
        return view

    def merged(self, other: backends.Service | None = None) -> None:
        """Wait until no merge runs."""
        merging = (other or self.service).backend.being_merged
        self.until(lambda: not merging)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a thread of the service has brought about a condition."""
        waiting = threading.Event()
        for _ in range(SECONDS * 100):
            if condition():
                return
            waiting.wait(0.01)
        self.fail('a thread of the service does not end')
