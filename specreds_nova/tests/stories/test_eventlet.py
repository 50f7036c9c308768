# SPDX-License-Identifier: Apache-2.0
"""A host whose nova-compute runs on green threads, as all did by default until lately."""

from cloud.hosts import services
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life

_DEFAULT = '[DEFAULT]\n'
_GREEN = 'concurrency_backend = eventlet\n'
# What such a nova-compute says of itself when it starts.
_SAYS = 'threads are green'


class TestEventlet(life.LifeTestCase):
    """The host of the backups."""

    def setUp(self) -> None:
        super().setUp()
        conf = self.host(base.BACKUP).files.nova_conf
        native = conf.read_text()
        said = self._said()
        self.addCleanup(self._compute, native)
        self._compute(native.replace(_DEFAULT, _DEFAULT + _GREEN, 1))
        self.wait('nova-compute to say that it is green', lambda: self._said() > said)

    def _compute(self, conf: str) -> None:
        """Run nova-compute with another configuration."""
        host = self.host(base.BACKUP)
        host.stop(services.COMPUTE)
        host.files.nova_conf.write_text(conf)
        host.start(services.COMPUTE)
        self.drill.bring_up(base.BACKUP)

    def _said(self) -> int:
        log = self.host(base.BACKUP).files.log / 'nova-compute.out'
        return log.read_text(errors='replace').count(_SAYS)

    def test_abort(self) -> None:
        self.see_abort()

    def test_promote_adopt_and_merge(self) -> None:
        self.see_promotion()
