# SPDX-License-Identifier: Apache-2.0
"""A backup's host whose nova-compute runs on eventlet's green threads."""

from cloud.hosts import services
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life

_DEFAULT = '[DEFAULT]\n'
_GREEN = 'concurrency_backend = eventlet\n'
# What such a nova-compute logs when it starts.
_GREETING = ' in the journal, green threads'


class TestEventlet(life.LifeTestCase):
    """The nova-compute of the backup's host uses eventlet."""

    def setUp(self) -> None:
        super().setUp()
        conf = self.host(base.BACKUP).files.nova_conf
        native = conf.read_text()
        before = self._starts()
        self.addCleanup(self._restart_compute, native)
        self._restart_compute(native.replace(_DEFAULT, _DEFAULT + _GREEN, 1))
        self.wait('nova-compute to log that it is green', lambda: self._starts() > before)

    def _restart_compute(self, conf: str) -> None:
        """Restart nova-compute with another configuration."""
        host = self.host(base.BACKUP)
        host.stop(services.COMPUTE)
        host.files.nova_conf.write_text(conf)
        host.start(services.COMPUTE)
        self.drill.bring_up(base.BACKUP)

    def _starts(self) -> int:
        log = self.host(base.BACKUP).files.log / 'nova-compute.out'
        return log.read_text(errors='replace').count(_GREETING)

    def test_backup_is_aborted(self) -> None:
        self.check_abort()

    def test_backup_is_promoted_adopted_and_merged(self) -> None:
        self.check_promotion()
