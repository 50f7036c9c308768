# SPDX-License-Identifier: Apache-2.0
"""What engines read again and again of thousands of recoveries."""

from specreds_nova.engine import model
from specreds_nova.tests.unit.engine.store import base


class BackupsTest(base.StoreTest):

    def test_backups_are_those_of_recoveries_that_race_or_are_committed(self) -> None:
        queued, racing, committed, ended = (self.created() for _ in range(4))
        self.store.change(racing, state=model.RACING, destination='node2')
        self.store.change(committed, state=model.COMMITTED)
        self.end(ended)
        self.assertEqual(
            {model.BackupPlace(racing.id, racing.server, racing.host, model.RACING, 'node2'),
             model.BackupPlace(committed.id, committed.server, committed.host, model.COMMITTED,
                               None)}, set(self.store.backups()))
        self.assertEqual([racing.id], [place.id for place in self.store.backups(
            [queued.server, racing.server])])
        self.assertEqual({model.QUEUED: 1, model.RACING: 1, model.COMMITTED: 1},
                         self.store.active_states())
