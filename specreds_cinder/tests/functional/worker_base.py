# SPDX-License-Identifier: Apache-2.0
"""What the tests of the worker share."""

import contextlib
import pathlib
from typing import Any

from cinder import context
import fixtures
from oslo_config import cfg
from oslo_config import fixture as config_fixture
from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder.service.worker import client
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import protocol_base


class WorkerTestCase(protocol_base.ProtocolTestCase):

    watching = False

    def setUp(self) -> None:
        super().setUp()
        conf = self.useFixture(config_fixture.Config(cfg.CONF))
        logging.register_options(cfg.CONF)
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.log = self.directory / 'worker.log'
        conf.config(log_file=str(self.log), debug=False)
        self.worker = self.make_worker()
        self.context = context.RequestContext('user-1', 'project-1', is_admin=False,
                                              request_id='req-0f9c')

    def make_worker(self, **cluster: Any) -> client.Worker:
        """Return a worker that ends with the test."""
        made = client.Worker(
            {'conffile': str(self.ceph.conf), 'user': 'cinder', 'timeout': 30, **cluster},
            self.pool, {}, watch=self.watching)
        self.addCleanup(made.stop)
        return made

    def ask(self, method: str, **arguments: Any) -> Any:
        """Call the worker for a request."""
        return self.worker.call(self.context, method, **arguments)

    def super(self, *images: str, **changes: Any) -> str:
        """Superpose images, and return the superposition's id."""
        superposition = records.new_id()
        self.addCleanup(self.end, superposition)
        view = self.ask('super', **{
            'superposition': superposition, 'images': list(images), 'reason': 'test',
            'server_id': 'a-server', 'labels': {'members': ['here']}, **changes})
        self.assertEqual(superposition, view['id'])
        return superposition

    def end(self, superposition: str) -> None:
        """End a superposition in whatever state it is."""
        with contextlib.suppress(exception.SuperpositionNotFound):
            if self.ask('show', superposition=superposition)['state'] in states.DECIDED:
                self.ask('merge', superposition=superposition)
            else:
                self.ask('drop', superposition=superposition)

    def child(self, superposition: str, *commands: str) -> None:
        """Write to the child version of the first volume, and make it durable."""
        record = self.protocol.show(superposition, records.Home(self.pool))
        actors.child_io(self.cluster, record.volumes[0], *commands)
        self.harden(record)

    def process(self) -> int:
        """Return the id of the worker's process."""
        self.ask('ping')
        process = self.worker._process
        assert process is not None
        return process.popen.pid
