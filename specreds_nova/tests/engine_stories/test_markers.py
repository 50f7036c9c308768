# SPDX-License-Identifier: Apache-2.0
"""What the console shows at the end of a boot is learned in one drill and used in the next."""

from cloud import commands
from cloud import drill as drills
from cloud.demo import recoveries
from cloud.openstack import layout
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.engine import base

_DRILLS = 3


class TestMarkers(base.EngineTestCase):
    """A guest that shows the end of its boot in words of its own, and does not write."""

    def test_backup_after_a_drill_is_ready_by_its_marker(self) -> None:
        server = self.boot(metadata={'specreds:ready': 'boot'})
        name = self.guest_name(server)
        self.assertNotIn(server.id, self._manage('list'))
        marker = self._learned(server)
        self.assertIn(f'the console shows {marker!r} as after earlier boots', self._drill(server))
        self.assertUnnoticed(server, name)
        self.assertIn('1 removed', self._manage('forget', server.id))
        self.assertIn('the network has answered the guest', self._drill(server))

    def _drill(self, server: drills.Server) -> str:
        """Suspect the host until the server's recovery has ended; return why the race ended."""
        earlier = self.engine.ids(server.id)
        self.openstack('host', 'suspect', cloud_base.PRIMARY, '--reason', 'a drill')
        try:
            self.wait('a recovery to begin', lambda: self.engine.ids(server.id) != earlier)
            recovery = self.ended(server, recoveries.PRIMARY)
        finally:
            self.openstack('host', 'clear', cloud_base.PRIMARY)
        self.trusted()
        return next(str(step.why) for step in reversed(recovery.steps) if step.name == 'race')

    def _learned(self, server: drills.Server) -> str:
        """Return the marker of a server that a drill has taught.

        A guest that pauses behind its last line on a busy machine teaches nothing.
        """
        for _ in range(_DRILLS):
            self.assertIn('the network has answered the guest', self._drill(server))
            for line in self._manage('list').splitlines():
                if server.id in line:
                    return line.split(' ', 2)[2]
        return self.fail(f'none of {_DRILLS} drills has taught a marker')

    def _manage(self, *words: str) -> str:
        """Run `specreds-engine-manage markers …`, and return its output."""
        return commands.run([
            str(layout.BIN / 'specreds-engine-manage'), '--config-file',
            str(self.cloud.files.engine_conf), 'markers', *words], timeout=60)
