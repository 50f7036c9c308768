# SPDX-License-Identifier: Apache-2.0
"""Which servers may lose what they have flushed: by libvirt, Ceph and the starts of QEMUs."""

import contextlib
import time
from typing import Any
from unittest import mock

import ddt
import fixtures
import rbd
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.truth import record as records
from specreds_nova.sentinel import domains
from specreds_nova.sentinel import processes
from specreds_nova.sentinel import storages
from specreds_nova.status import caches

_REF = records.VolumeRef('volumes', 'space', 'volume-1')
_CHANGED = 1_000_000.0
_CONFIG, _POOL, _IMAGE = (rbd.RBD_CONFIG_SOURCE_CONFIG, rbd.RBD_CONFIG_SOURCE_POOL,
                          rbd.RBD_CONFIG_SOURCE_IMAGE)


@ddt.ddt
class CachesTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.hypervisor = self.replace(domains, 'Hypervisor').return_value
        self.hypervisor.running.return_value = {'server': 7}
        self.has()
        self.process = self.replace(processes, 'qemu').return_value
        self.cluster = self.replace(storages.Storages, 'apart').return_value
        self.cluster.conffile = '/nonexistent/ceph.conf'
        self.cluster.ioctx.side_effect = lambda *place: contextlib.nullcontext(
            mock.Mock(**{'stat.side_effect': lambda name: self.stat(place, name)}))
        self.image = mock.Mock(**{'id.return_value': 'a1'})
        self.opened = self.replace(volumes, 'opened')
        self.opened.side_effect = lambda *_place: contextlib.nullcontext(self.image)
        self.replace(time, 'mktime', lambda moment: moment)
        self.asked: list[tuple[Any, str]] = []

    def replace(self, place: Any, name: str, *new: Any) -> Any:
        return self.useFixture(fixtures.MockPatchObject(place, name, *new)).mock

    def stat(self, place: Any, name: str) -> tuple[int, float]:
        self.asked.append((place, name))
        return 0, _CHANGED

    def has(self, *, cached: bool = True, backup_of: str | None = None) -> None:
        """Let the server have a disk."""
        self.hypervisor.describe.return_value = domains.Domain(
            'server', 'instance-1', 7, backup_of, (domains.Image(_REF, 'cinder', cached),), ())

    def found(self, policy: str, source: int, began: float) -> list[str]:
        """Return what the check finds.

        :param began: the time at which QEMU was started
        """
        self.image.config_list.return_value = [
            {'name': 'rbd_cache', 'value': 'true', 'source': _CONFIG},
            {'name': 'rbd_cache_policy', 'value': policy, 'source': source}]
        self.process.began = began
        config: Any = mock.Mock(**{'get.return_value': '', 'words.return_value': []})
        return [finding.text for finding in caches.running(config)]

    @ddt.data(('writethrough', _CONFIG), ('writethrough', _POOL), ('writethrough', _IMAGE))
    @ddt.unpack
    def test_server_that_is_written_through_is_fine(self, policy: str, source: int) -> None:
        self.assertEqual([], self.found(policy, source, _CHANGED + 60))

    def test_pool_and_image_say_when_their_policy_was_changed(self) -> None:
        self.found('writethrough', _POOL, 1.0)
        self.found('writethrough', _IMAGE, 1.0)
        self.assertEqual([(('volumes', ''), 'rbd_info'),
                          (('volumes', 'space'), 'rbd_header.a1')], self.asked)

    @ddt.data(_CHANGED - 60, _CHANGED + 1)
    def test_server_that_was_started_before_the_policy_was_set(self, began: float) -> None:
        [text] = self.found('writethrough', _POOL, began)
        self.assertIn('start or migrate anew servers server:', text)

    @ddt.data(('writearound', _CONFIG), ('writeback', _POOL), ('writearound', _IMAGE))
    @ddt.unpack
    def test_server_with_another_policy(self, policy: str, source: int) -> None:
        [text] = self.found(policy, source, _CHANGED + 60)
        self.assertIn('run "rbd config pool set volumes rbd_cache_policy writethrough"', text)

    def test_disk_without_the_cache_is_fine(self) -> None:
        self.has(cached=False)
        self.assertEqual([], self.found('writearound', _CONFIG, 1.0))

    def test_backup_has_a_policy_of_its_own(self) -> None:
        self.has(backup_of='superposition')
        self.assertEqual([], self.found('writearound', _CONFIG, 1.0))

    def test_many_servers_are_counted(self) -> None:
        self.hypervisor.running.return_value = {f'server-{number}': 1 for number in range(12)}
        [text] = self.found('writearound', _CONFIG, 1.0)
        self.assertIn('and 2 more', text)

    def test_silence_is_a_warning(self) -> None:
        self.opened.side_effect = errors.ClusterTimeout('no answer')
        self.assertEqual(['it is unknown whether servers lose what guests have flushed: '
                          'no answer'], self.found('writethrough', _POOL, 1.0))
        self.hypervisor.running.side_effect = domains.HypervisorSilent('libvirt')
        self.assertIn('libvirt', self.found('writethrough', _POOL, 1.0)[0])
