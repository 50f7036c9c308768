# SPDX-License-Identifier: Apache-2.0
"""Second backups of servers whose first backup did not die."""

from cloud import drill as drills
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life


class TestSecondBackup(life.SecondBackupTestCase):
    """The first backup lives, or has lost its storage for a time."""

    def test_first_backup_that_lives_goes_on(self) -> None:
        first, name = self._promoted()
        self.heartbeat(first.server, 0.2)
        second = self.begin_again(first)
        self.assertEqual('dirty', self.drill.collapse(second))
        self.drill.backups.abort({}, second.host, second.id)
        self.assertNothingLeft(second, bound_to=base.BACKUP)
        self.assertEqual(name, self.guest_name(first.server))
        self.drill.adopt(first)
        self.drill.merged(first)
        self.assertEqual(name, self.guest_name(first.server))

    def test_first_backup_without_storage_is_ended_when_it_has_it_again(self) -> None:
        first, name = self._promoted()
        self.host(base.BACKUP).cut(storage=True)
        second = self.begin_again(first)
        self.finish(first, second)
        self.host(base.BACKUP).heal()
        self.wait('the first backup to be ended',
                  lambda: self.drill.pid(first.server, base.BACKUP) is None)
        self.wait('the first backup to be removed',
                  lambda: self.drill.status(first)['phase'] == 'failed')
        self.assertNotEqual(name, self.guest_name(first.server))

    def _promoted(self) -> tuple[drills.Recovery, str]:
        """Promote the backup of a server of a dead host; return its recovery and its guest."""
        server = self.boot()
        self.host(base.PRIMARY).kill()
        first = self.begin(server)
        self.drill.promote(first)
        return first, self.guest_name(server)
