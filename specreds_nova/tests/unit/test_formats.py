# SPDX-License-Identifier: Apache-2.0
"""What release 0.1.0 has sent and stored is read, and sent and stored in the same form.

A release before this one and this one run beside each other during an upgrade. A field may be
added where the former release ignores it. Never change a file of a release; 0.1.0 begins with its
tag. If the tables change, write a migration, which gets a file of its own, and have
``v0001_begin`` list its own tables.
"""

import json
import pathlib

import fixtures
from sqlalchemy import schema
from sqlalchemy.dialects import mysql
import testtools

from specreds_nova.beats import message
from specreds_nova.beats import voice
from specreds_nova.engine.store import migration
from specreds_nova.engine.store import tables
from specreds_nova.host.backup import journal

_PLACE = pathlib.Path(__file__).parents[1] / 'formats'
_SERVER = '9c1e6c6a-5a0f-4f0b-9a2e-0d5b1c2f3e04'
_BACKUP = '1f6a7a0e-40b5-4c39-8f1e-3d1c9c360d3b'
_BEAT = message.Beat(
    host='node1', boot='00ff00ff00ff00ff', number=7, interval=0.2, libvirt_age=0.1,
    storage_age=0.3, ended=(_SERVER,), ready=(_BACKUP, message.first_frame(_BACKUP)),
    leaving=True, kernel='3d1c9c36-0d3b-4d41-9f0b-6f1f0a6f7d10', running='0011223344556677',
    domains=(_SERVER,), goodbye=message.SYSTEM, uptime=90.5, broker='b1:5672',
    lease=message.LEASED, sentinel_age=0.4)


def _ddl() -> str:
    """Return the statements that make the tables."""
    statements: list[schema.ExecutableDDLElement] = []
    for table in tables.METADATA.sorted_tables:
        statements.append(schema.CreateTable(table))
        statements += [schema.CreateIndex(index)
                       for index in sorted(table.indexes, key=lambda index: str(index.name))]
    lines = '\n'.join(str(each.compile(dialect=mysql.dialect())).strip() + ';'
                      for each in statements)
    return '\n'.join(line.rstrip() for line in lines.splitlines()) + '\n'


class FormatsTest(testtools.TestCase):

    def test_beat_is_read_and_sent_in_its_form(self) -> None:
        raw = (_PLACE / 'beat.json').read_bytes()
        method, arguments = message.unwrap(raw)
        self.assertEqual('beat', method)
        self.assertEqual(_BEAT, message.decode(arguments['beat']))
        self.assertEqual(raw, message.wrap('beat', {'beat': message.encode(_BEAT)}))

    def test_answer_is_sent_in_its_form(self) -> None:
        self.assertEqual((_PLACE / 'answer.json').read_bytes(), message.wrap_answer(
            '00ff00ff00ff00ff', 7, True, protects='opt-out', engine='e1',
            voice='192.0.2.1:5410'))

    def test_datagrams_are_read_and_sent_in_their_form(self) -> None:
        key = voice.Key(voice.host_key(bytes(range(32)), 'node1'))
        beat = voice.Beat('node1', b'bootboot', 7, voice.kernel_id('kernel'), b'nonce-07',
                          lease=message.LEASED, storage_age=0.3)
        answer = voice.Answer(b'bootboot', 7, b'nonce-08', voice.Says.HIDE)
        sent, answered = (bytes.fromhex(line) for line in (
            _PLACE / 'datagrams.hex').read_text().splitlines())
        self.assertEqual((sent, answered), (key.beat(beat), key.answer(answer)))
        self.assertTrue(key.proves(sent))
        self.assertEqual((beat, answer), (voice.decoded(sent), key.answered(answered)))

    def test_journal_of_a_host_is_read_and_written_back(self) -> None:
        place = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        stored = json.loads((_PLACE / 'backup.json').read_text())
        path = place / f'{_BACKUP}.json'
        path.write_text(json.dumps(stored))
        records = journal.Journal(str(place))
        records.load()
        [record] = records.records()
        self.assertEqual((journal.PROMOTED, _SERVER), (record.phase, record.instance_uuid))
        records.save(record)
        self.assertEqual({**stored, 'updated_at': record.updated_at},
                         json.loads(path.read_text()))

    def test_tables_are_those_of_their_version(self) -> None:
        path = _PLACE / f'tables-{migration.newest()}.sql'
        self.assertEqual(path.read_text(), _ddl(), f'{path.name}: of another form')
