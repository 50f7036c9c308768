# SPDX-License-Identifier: Apache-2.0
"""The conditions of readiness of a backup."""

from cloud import drill as drills
from specreds_nova.tests.cloud import base


class TestReady(base.NovaTestCase):
    """A backup is ready when its server's condition is met."""

    def test_each_condition_is_met(self) -> None:
        server = self.boot()
        for condition, seen in (('line:org.specreds.ready', 'G1-READY'),
                                ('console:^G1-READY boot=', 'G1-READY'),
                                ('tcp:80', 'accepts connections'),
                                ('delay:1', '1 s have passed'),
                                ('boot', 'the guest is idle')):
            self.metadata(server, **{'specreds:ready': condition})
            recovery = self.begin(server)
            self.assertIn(seen, self.drill.status(recovery)['ready_detail'])
            self.drill.abort(recovery)

    def test_backup_is_not_ready_after_its_timeout(self) -> None:
        server = self.boot(metadata={'specreds:ready': 'tcp:81', 'specreds:ready_timeout': '2'})
        recovery = self.begin(server, ready=False)
        self.wait('the time to be over', lambda: self.drill.status(recovery)[
            'ready_detail'].startswith('not ready within 2 s'))
        self.assertFalse(self.drill.status(recovery)['ready'])

    def test_conditions_of_the_guest_agent_are_met(self) -> None:
        server = self.boot(image='g2')
        for condition, seen in (('agent', 'the guest agent answers'),
                                ('agent:/bin/sh -c "test -d /proc"', '/bin/sh ended with 0')):
            self.metadata(server, **{'specreds:ready': condition})
            recovery = self.begin(server)
            self.assertIn(seen, self.drill.status(recovery)['ready_detail'])
            self.drill.abort(recovery)

    def metadata(self, server: drills.Server, **metadata: str) -> None:
        self.drill.compute.post(f'/servers/{server.id}/metadata', json={'metadata': metadata})
