# SPDX-License-Identifier: Apache-2.0
"""The journal of backups, which survives a crash."""

import os
import stat

from specreds_nova.host.backup import journal as journals
from specreds_nova.tests.unit.host import base


class JournalTest(base.TestCase):
    """Records on disk and in memory."""

    def path(self, name: str = f'{base.BACKUP_ID}.json') -> str:
        return os.path.join(self.state, 'specreds', name)

    def test_every_field_is_read_back(self) -> None:
        record = self.record(journals.HARDENED, volume_ids=[base.VOLUME], opened=True,
                             timings_ms={'seal': 1.5}, merge={'done': 1}, error='none')
        self.assertEqual(record, self.on_disk())

    def test_file_is_readable_by_its_owner_only(self) -> None:
        self.record(journals.RUNNING)
        self.assertEqual(0o600, stat.S_IMODE(os.stat(self.path()).st_mode))
        self.assertEqual(0o700, stat.S_IMODE(os.stat(os.path.dirname(self.path())).st_mode))

    def test_new_journal_is_empty(self) -> None:
        self.journal.load()
        self.assertEqual([], self.journal.records())

    def test_interrupted_write_keeps_the_old_record(self) -> None:
        self.record(journals.RUNNING)
        with open(self.path(f'.{base.BACKUP_ID}.json.1.new'), 'w') as file:
            file.write('{"phase": "prom')
        self.assertEqual('running', self.phase())
        self.assertEqual([f'{base.BACKUP_ID}.json'], os.listdir(os.path.dirname(self.path())))

    def test_unreadable_record_is_kept(self) -> None:
        self.record(journals.RUNNING)
        broken = self.path(f'{base.SERVER}.json')
        with open(broken, 'w') as file:
            file.write('{')
        self.assertEqual('running', self.phase())
        self.assertTrue(os.path.exists(broken))

    def test_other_files_are_ignored(self) -> None:
        self.record(journals.RUNNING)
        with open(self.path('sentinel.json'), 'w') as file:
            file.write('{}')
        self.assertEqual(base.BACKUP_ID, self.on_disk().backup_id)  # type: ignore[union-attr]

    def test_record_of_a_newer_version_is_kept(self) -> None:
        self.record(journals.RUNNING)
        with open(self.path()) as file:
            text = file.read()
        with open(self.path(), 'w') as file:
            file.write(text.replace('{', '{"unheard_of": 1,', 1))
        self.assertEqual('running', self.phase())

    def test_forgotten_record_is_deleted(self) -> None:
        self.record(journals.FAILED)
        self.journal.forget(base.BACKUP_ID)
        self.journal.forget(base.BACKUP_ID)
        self.assertIsNone(self.journal.get(base.BACKUP_ID))
        self.assertIsNone(self.phase())

    def test_backup_is_hidden_until_its_adoption(self) -> None:
        for phase in journals.HIDDEN:
            self.record(phase)
            self.assertEqual({base.SERVER}, self.journal.hidden())
        for phase in journals.OURS | journals.ENDED:
            self.record(phase)
            self.assertEqual(frozenset(), self.journal.hidden())

    def test_record_is_found_by_server(self) -> None:
        for phase in (*journals.HIDDEN, journals.ADOPTED):
            record = self.record(phase)
            self.assertEqual(record, self.journal.of_instance(base.SERVER))
            self.assertIsNone(self.journal.of_instance('another'))
        for phase in journals.FINISHED:
            self.record(phase)
            self.assertIsNone(self.journal.of_instance(base.SERVER))

    def test_promoted_backup_is_expected_from_the_host_of_its_primary(self) -> None:
        self.record(journals.PROMOTED, primary=base.PRIMARY)
        self.assertEqual(base.PRIMARY, self.journal.expected(base.SERVER))
        self.record(journals.PROMOTED)
        self.assertEqual('', self.journal.expected(base.SERVER))
        for phase in (journals.HARDENED, *journals.OURS, *journals.ENDED):
            self.record(phase, primary=base.PRIMARY)
            self.assertIsNone(self.journal.expected(base.SERVER))
