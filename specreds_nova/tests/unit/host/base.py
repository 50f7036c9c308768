# SPDX-License-Identifier: Apache-2.0
"""Base class of the tests of a compute host, with mocks of whatever is not this project's."""

from collections.abc import Callable
import pathlib
import types
from typing import Any, cast
from unittest import mock

import fixtures
from nova import objects
import nova.conf
from oslo_config import fixture as config_fixture
import testtools

from specreds_nova import protected
from specreds_nova.host.backup import backups
from specreds_nova.host.backup import domain as backup_domain
from specreds_nova.host.backup import host as backup_host
from specreds_nova.host.backup import journal as journals

SERVER = '11111111-1111-4111-8111-111111111111'
VOLUME = '22222222-2222-4222-8222-222222222222'
SUPERPOSITION = '33333333-3333-4333-8333-333333333333'
BACKUP_ID = 'a4444444-4444-4444-8444-444444444444'
HOST = 'node2'
PRIMARY = 'node1'


class NoWatches:
    """Watches that never end a wait for readiness."""

    def __init__(self) -> None:
        self.watched: set[str] = set()
        self.then: Callable[[str], None] = lambda backup_id: None

    def begin(self, record: journals.Record) -> None:
        """Record the begin of a watch."""
        self.watched.add(record.backup_id)

    def end(self, backup_id: str) -> None:
        """Record the end of a watch."""
        self.watched.discard(backup_id)

    def look(self, record: journals.Record) -> tuple[bool, str]:
        """Return the recorded readiness."""
        return record.ready, record.ready_detail

    def opened(self, record: journals.Record) -> None:
        """Record the end of a watch."""
        self.end(record.backup_id)

    def is_late(self, backup_id: str) -> bool:
        """Report that no backup is late."""
        del backup_id
        return False


class TestCase(testtools.TestCase):
    """With a configuration, a journal in a directory of its own, and a played this_host."""

    def setUp(self) -> None:
        """Build the this_host."""
        super().setUp()
        objects.register_all()
        self.conf = self.useFixture(config_fixture.Config(nova.conf.CONF))
        self.state = self.useFixture(fixtures.TempDir()).path
        self.conf.config(state_path=self.state, host=HOST)
        self.journal = journals.Journal(f'{self.state}/specreds')
        self.cinder = mock.Mock()
        self.cinder.state.return_value = 'superposed'
        self.launcher = mock.Mock()
        self.domain(state='running')
        self.box = mock.Mock()
        self.box.open.return_value = {'box_open': 1}
        self.box.reasons.return_value = []
        self.claims = mock.Mock()
        self.topologies = mock.Mock()
        self.eligibility = mock.Mock()
        self.eligibility.reasons.return_value = []
        self.eligibility.all_reasons.return_value = []
        self.eligibility.immovable.return_value = None
        self.driver = mock.Mock()
        self.this_host = backup_host.Host(
            name=HOST, driver=self.driver, journal=self.journal, cinder=self.cinder,
            launcher=self.launcher, claims=self.claims, topologies=self.topologies,
            eligibility=self.eligibility, box=self.box)
        self.watches = cast(Any, NoWatches())
        self.backups = backups.Backups(self.this_host, self.watches)
        self.merge = self.backups.merge = mock.Mock()
        self.instance = types.SimpleNamespace(
            uuid=SERVER, name='instance-00000001', host=PRIMARY, task_state=None,
            deleted=False, numa_topology=None, device_metadata=None, save=mock.Mock(),
            flavor=types.SimpleNamespace(extra_specs={}))
        self.bdms = [types.SimpleNamespace(volume_id=VOLUME, attachment_id='a1')]
        self.cinder.connections.return_value = {VOLUME: {}}
        self.cinder.reasons.return_value = []
        self.replace('specreds_nova.host.backup.start.load', lambda context, uuid: (
            self.instance, self.bdms))
        self.replace('specreds_nova.host.backup.host.find_instance',
                     lambda context, uuid: self.instance)
        self.harden = self.replace('specreds_nova.host.disks.durable.harden', mock.Mock())
        self.replace('specreds_nova.host.backup.host.admin_context', mock.Mock())

    def tell(self, word: str) -> None:
        """Have engines tell the host which servers it protects."""
        kept = pathlib.Path(self.state, protected.FILE)
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(word)

    def replace(self, name: str, new: Any) -> Any:
        """Replace an attribute until the test ends."""
        patch = mock.patch(name, new)
        patch.start()
        self.addCleanup(patch.stop)
        return new

    def domain(self, state: str | None) -> None:
        """Set the state of the backup's domain; None for no domain."""
        domain = None if state is None else backup_domain.Domain(4711, state)
        self.launcher.look.return_value = domain
        self.launcher.backup.return_value = None if state is None else mock.Mock()
        self.launcher.find.return_value = None

    def record(self, phase: str, **more: Any) -> journals.Record:
        """Write a record into the journal."""
        record = journals.Record(BACKUP_ID, SERVER, SUPERPOSITION, HOST, phase=phase, **more)
        self.journal.save(record)
        return record

    def on_disk(self) -> journals.Record | None:
        """Return the record as another nova-compute would read it."""
        journal = journals.Journal(f'{self.state}/specreds')
        journal.load()
        return journal.get(BACKUP_ID)

    def phase(self) -> str | None:
        """Return the phase that is on disk."""
        record = self.on_disk()
        return None if record is None else record.phase
