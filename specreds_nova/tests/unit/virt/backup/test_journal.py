# SPDX-License-Identifier: Apache-2.0
"""What survives a crash."""

import os
import stat

from specreds_nova.tests.unit.virt import base
from specreds_nova.virt.backup import journal as journals


class JournalTest(base.TestCase):
    """Records, on disk and in memory."""

    def path(self, name: str = f'{base.BACKUP_ID}.json') -> str:
        return os.path.join(self.state, 'specreds', name)

    def test_all_of_a_record_survives(self) -> None:
        record = self.record(journals.HARDENED, volume_ids=[base.VOLUME], opened=True,
                             timings_ms={'seal': 1.5}, merge={'done': 1}, error='none')
        self.assertEqual(record, self.on_disk())

    def test_only_for_its_owner(self) -> None:
        self.record(journals.RUNNING)
        self.assertEqual(0o600, stat.S_IMODE(os.stat(self.path()).st_mode))
        self.assertEqual(0o700, stat.S_IMODE(os.stat(os.path.dirname(self.path())).st_mode))

    def test_nothing_yet(self) -> None:
        self.journal.load()
        self.assertEqual([], self.journal.records())

    def test_cut_off_write_changes_nothing(self) -> None:
        self.record(journals.RUNNING)
        with open(self.path(f'.{base.BACKUP_ID}.json.1.new'), 'w') as file:
            file.write('{"phase": "prom')
        self.assertEqual('running', self.phase())
        self.assertEqual([f'{base.BACKUP_ID}.json'], os.listdir(os.path.dirname(self.path())))

    def test_what_cannot_be_read_is_kept(self) -> None:
        self.record(journals.RUNNING)
        broken = self.path(f'{base.SERVER}.json')
        with open(broken, 'w') as file:
            file.write('{')
        self.assertEqual('running', self.phase())
        self.assertTrue(os.path.exists(broken))

    def test_others_have_files_there_too(self) -> None:
        self.record(journals.RUNNING)
        with open(self.path('sentinel.json'), 'w') as file:
            file.write('{}')
        self.assertEqual(base.BACKUP_ID, self.on_disk().backup_id)  # type: ignore[union-attr]

    def test_of_a_newer_version(self) -> None:
        self.record(journals.RUNNING)
        with open(self.path()) as file:
            told = file.read()
        with open(self.path(), 'w') as file:
            file.write(told.replace('{', '{"unheard_of": 1,', 1))
        self.assertEqual('running', self.phase())

    def test_forget(self) -> None:
        self.record(journals.FAILED)
        self.journal.forget(base.BACKUP_ID)
        self.journal.forget(base.BACKUP_ID)
        self.assertIsNone(self.journal.get(base.BACKUP_ID))
        self.assertIsNone(self.phase())

    def test_hidden_until_adopted(self) -> None:
        for phase in journals.HIDDEN:
            self.record(phase)
            self.assertEqual({base.SERVER}, self.journal.hidden())
        for phase in journals.OURS | journals.ENDED:
            self.record(phase)
            self.assertEqual(frozenset(), self.journal.hidden())

    def test_of_instance(self) -> None:
        for phase in (*journals.HIDDEN, journals.ADOPTED, journals.MERGING):
            record = self.record(phase)
            self.assertEqual(record, self.journal.of_instance(base.SERVER))
            self.assertIsNone(self.journal.of_instance('another'))
        for phase in journals.FINISHED:
            self.record(phase)
            self.assertIsNone(self.journal.of_instance(base.SERVER))
