# SPDX-License-Identifier: Apache-2.0
"""A host with one domain, as libvirt and Ceph describe it to the sentinel."""

import pathlib
from unittest import mock

import fixtures
import testtools

from specreds_cinder.superposition.truth import record as records
from specreds_nova.sentinel import act
from specreds_nova.sentinel import domains
from specreds_nova.sentinel import evidence
from specreds_nova.sentinel import memory
from specreds_nova.sentinel import processes
from specreds_nova.sentinel import storages
from specreds_nova.sentinel import watch

UUID = '6e1e5bd0-0000-4000-8000-000000000001'
REF = records.VolumeRef('volumes', '', 'volume-1')
HOST = '198.51.100.7'
OWN = f'{HOST}:0/11'
ID = '6e1e5bd0-0000-4000-8000-00000000000a'


def make_record(state: str, outcome: str | None = None, fenced: tuple[str, ...] = ()
            ) -> records.Record:
    """Return the record of the superposition of the image."""
    volume = records.Volume('volumes', '', 'volume-1', 'id1', 1, 1, 'volumes', 'rbd_data.id1',
                            1 << 30, 4 << 20, 0, 'volume-1.super-6e1e5bd0', (OWN,))
    return records.Record(ID, state, (volume,), 'then', 'now', outcome=outcome, fenced=fenced)


class WatchTestCase(testtools.TestCase):
    """A test with one domain, whose disk is an image that it alone has open."""

    def setUp(self) -> None:
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.domain = domains.Domain(UUID, 'instance-1', 7, None,
                                     (domains.Image(REF, 'cinder'),), ('tap1',))
        self.record: records.Record | None = None
        self.watching = frozenset({OWN})
        self.noted: frozenset[str] = frozenset()
        self.blocklist: frozenset[str] = frozenset()
        self.hypervisor = mock.create_autospec(domains.Hypervisor, instance=True)
        self.hypervisor.running.side_effect = lambda: {UUID: self.domain.number}
        self.hypervisor.unpaused.return_value = frozenset({UUID})
        self.hypervisor.describe.side_effect = lambda _uuid: self.domain
        self.storage = mock.create_autospec(evidence.Storage, instance=True)
        self.storage.hosts = frozenset({HOST})
        self.storage.opened.side_effect = lambda _ref: evidence.Opened('id1', self.watching)
        self.storage.record.side_effect = lambda _ref, _id: self.record
        self.storage.noted.side_effect = lambda _ref: self.noted
        self.storage.blocklisted.side_effect = lambda _s: self.blocklist
        self.storage.suspected.side_effect = lambda _s: self.blocklist
        self.process = processes.Process(100, 5, 'qemu -uuid x')
        self.replace(processes, 'qemu', lambda _uuid: self.process)
        self.silenced = mock.Mock()
        self.replace(act, 'silence', self.silenced)
        self.ended = mock.Mock(return_value=True)
        self.real_end = act.end
        self.replace(act, 'end', self.ended)
        self.watch = self.make_watch(confirm_s=0)

    def replace(self, module: object, name: str, new: object) -> None:
        """Replace an attribute until the end of the test."""
        patcher = mock.patch.object(module, name, new)
        self.addCleanup(patcher.stop)
        patcher.start()

    def make_watch(self, **settings: float) -> watch.HostWatch:
        """Return a watch that reads everything at each look."""
        ceph = storages.Storages('ceph.conf', {}, 1)
        self.replace(ceph, 'of', mock.Mock(return_value=self.storage))
        ceph._storages['cinder'] = self.storage
        return watch.HostWatch(self.hypervisor, ceph, memory.Memory(self.root / 'clients.json'),
                               self.root / 'stale',
                               watch.Settings(learn_s=0, blocklist_s=0, **settings))
