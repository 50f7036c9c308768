# SPDX-License-Identifier: Apache-2.0
"""Second backups of servers whose first backup did not die."""

from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life


class TestSecondBackup(life.SecondBackupTestCase):
    """The first backup lives, or has lost its storage for a time."""

    def test_first_backup_that_lives_goes_on(self) -> None:
        server = self.boot()
        self.host(base.PRIMARY).kill()
        first = self.begin(server)
        self.drill.promote(first)
        name = self.guest_name(server)
        self.heartbeat(server, 0.2)
        second = self.begin_again(first)
        self.assertEqual('dirty', self.drill.collapse(second))
        self.drill.backups.abort({}, second.host, second.id)
        self.assertNothingLeft(second, bound_to=base.BACKUP)
        self.assertEqual(name, self.guest_name(server))
        self.drill.adopt(first)
        self.drill.merged(first)
        self.assertEqual(name, self.guest_name(server))

    def test_first_backup_without_storage_is_ended_when_it_has_it_again(self) -> None:
        server = self.boot()
        self.host(base.PRIMARY).kill()
        first = self.begin(server)
        self.drill.promote(first)
        name = self.guest_name(server)
        self.host(base.BACKUP).cut(storage=True)
        second = self.begin_again(first)
        self.finish(first, second)
        self.host(base.BACKUP).heal()
        self.wait('the first backup to be ended',
                  lambda: self.drill.pid(server, base.BACKUP) is None)
        self.wait('the first backup to be removed',
                  lambda: self.drill.status(first)['phase'] == 'failed')
        self.assertNotEqual(name, self.guest_name(server))
