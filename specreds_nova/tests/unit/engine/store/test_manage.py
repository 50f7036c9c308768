# SPDX-License-Identifier: Apache-2.0
"""The migrations of the database, and the command that runs them."""

import contextlib
import io
import pathlib

from alembic import autogenerate
from alembic import migration as alembic_migration
import fixtures
from oslo_config import cfg
import testtools

from specreds_nova.beats import voice
from specreds_nova.engine import model
from specreds_nova.engine.store import connection
from specreds_nova.engine.store import manage
from specreds_nova.engine.store import migration
from specreds_nova.engine.store import store
from specreds_nova.engine.store import tables
from specreds_nova.tests.unit.engine import clock as clocks
from specreds_nova.tests.unit.engine.store import base


class ManageTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.place = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.url = f'sqlite:///{self.place}/engine.db'
        self.file = self.place / 'engine.conf'
        self.file.write_text(f'[database]\nconnection = {self.url}\n')
        self.conf = cfg.ConfigOpts()
        connection.register(self.conf)
        self.conf(['--config-file', str(self.file)])

    def run_db(self, *words: str, status: int = 0, area: str = 'db') -> str:
        """Run ``specreds-engine-manage db WORDS``, and return its output."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            self.assertEqual(status, manage.main(
                ['--config-file', str(self.file), area, *words]), printed.getvalue())
        return printed.getvalue()

    def run_key(self, *words: str, status: int = 0) -> str:
        """Run ``specreds-engine-manage key WORDS``, and return its output."""
        return self.run_db(*words, status=status, area='key').strip()

    def test_keys_of_hosts_follow_from_a_master_key_until_it_is_retired(self) -> None:
        keys = self.place / 'voice.keys'
        self.file.write_text(f'[engine]\nvoice_keys = {keys}\n')
        self.assertIn('no master key', self.run_key('host', 'cn1', status=1))
        self.assertEqual(str(keys), self.run_key('new'))
        self.assertEqual(0o640, keys.stat().st_mode & 0o777)
        first = self.run_key('host', 'cn1')
        self.assertEqual(first, self.run_key('host', 'cn1'))
        self.assertNotEqual(first, self.run_key('host', 'cn2'))
        self.assertIn('no former key', self.run_key('retire', status=1))
        self.run_key('new')
        self.assertIn('retire', self.run_key('new', status=1))
        second = self.run_key('host', 'cn1')
        self.assertNotEqual(first, second)
        masters = voice.read_keys(keys, 2)
        self.assertEqual([second, first],
                         [voice.host_key(master, 'cn1').hex() for master in masters])
        self.run_key('retire')
        self.assertEqual(masters[:1], voice.read_keys(keys, 2))

    def test_file_with_something_else_than_keys_is_refused(self) -> None:
        keys = self.place / 'voice.keys'
        self.file.write_text(f'[engine]\nvoice_keys = {keys}\n')
        for contents in ('', 'secret', 'ab' * 31, 3 * ('ab' * 32 + '\n'), 'é' * 64):
            keys.write_text(contents)
            self.assertIn('voice.keys', self.run_key('host', 'cn1', status=1))

    def test_sync_may_be_repeated(self) -> None:
        self.assertIn('none', self.run_db('version'))
        for _ in range(2):
            self.assertEqual(migration.newest(), self.run_db('sync').strip())
        self.assertEqual(f'{migration.newest()} (of this release: {migration.newest()})',
                         self.run_db('version').strip())

    def test_migrations_create_the_tables_of_the_store(self) -> None:
        self.run_db('sync')
        with connection.connect(self.conf).connect() as connected:
            context = alembic_migration.MigrationContext.configure(connected)
            self.assertEqual([], autogenerate.compare_metadata(context, tables.METADATA))

    def test_mode_of_the_cloud_is_set(self) -> None:
        self.run_db('sync')
        for mode in ('act', 'pause'):
            self.run_db(mode, '--reason', 'why', area='mode')
        [stored] = store.Store(connection.connect(self.conf)).modes()
        self.assertEqual(('cloud', '', 'pause', 'why', None), (
            stored.scope, stored.name, stored.mode, stored.reason, stored.until))

    def test_purge_deletes_old_recoveries(self) -> None:
        self.run_db('sync')
        # A recovery that ended long ago.
        old_store = store.Store(connection.connect(self.conf), clocks.Clock().now)
        recovery = base.make_recovery()
        old_store.create([recovery])
        old_store.change(old_store.take_over(recovery, 'engine1'), state=model.ENDED,
                         outcome=model.PRIMARY)
        self.assertIn('0 removed', self.run_db('purge', '--older-than', '100000000'))
        self.assertIn('1 removed', self.run_db('purge'))
        self.assertIsNone(old_store.get(recovery.id))

    def test_unreachable_database_is_named(self) -> None:
        self.file.write_text('[database]\nconnection = sqlite:////nowhere/engine.db\n'
                             'max_retries = 1\nretry_interval = 0\n')
        self.assertIn('does not answer', self.run_db('sync', status=1))

    def test_missing_connection_is_named(self) -> None:
        self.file.write_text('')
        self.assertIn('set [database] connection', self.run_db('sync', status=1))
