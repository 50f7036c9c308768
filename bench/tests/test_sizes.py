# SPDX-License-Identifier: Apache-2.0
"""Sizes that no small cluster has are simulated, and none of the work is left out."""

import pathlib
import struct
import threading
from unittest import mock

import rbd
import testtools

from bench import collapse
from bench import images
from bench import report
from bench import superbench
from specreds_cinder import superposition as sp
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.evidence import cut as cuts
from specreds_cinder.superposition.evidence import objectmap
from specreds_cinder.superposition.evidence import placement_groups
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.tests.unit import fakes

_POOL = ceph.Pool(id=7, name='pgs-256', pg_num=256, merges='null', erasure=False,
                  cache_tier=False, rbd=True, rjenkins=True)
_REF = sp.VolumeRef('volumes', '', 'objects-25600')
_SERVERS = 60


class CutTest(testtools.TestCase):
    """A cut of many placement groups in a pool of few."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster = superbench._Divided.__new__(superbench._Divided)
        self.cluster.timeout = 60
        self.patch(ceph.Cluster, 'pools', lambda _self: {7: _POOL})
        ioctx = mock.MagicMock()
        ioctx.__enter__.return_value.get_pool_id.return_value = 7
        self.patch(ceph.Cluster, 'ioctx', mock.Mock(return_value=ioctx))
        self.write = mock.Mock(side_effect=lambda names, *_: [9] * len(names))
        self.patch(ceph.Cluster, 'aio',
                   mock.Mock(**{'ioctx.return_value.write_answered': self.write}))

    def test_marker_of_each_simulated_group_is_written(self) -> None:
        figures = superbench._cut(self.cluster, _POOL.name, 3)
        names = self.write.call_args.args[0]
        groups = placement_groups.stable_mod(placement_groups.hashes(names), 4096)
        self.assertEqual(list(range(4096)), groups.tolist())
        self.assertEqual(4, self.write.call_count)
        self.assertEqual((3, 3), (figures['super.cut_4096_pgs_s.n'],
                                  figures['super.cut_4096_pgs_client_s.n']))

    def test_pool_that_is_not_simulated_is_named_by_its_size(self) -> None:
        taken = records.Cut(256, 'null', (9,) * 256)
        with mock.patch.object(cuts, 'take', return_value=taken):
            self.assertIn('super.cut_256_pgs_s', superbench._cut(self.cluster, _POOL.name, 1))

    def test_cut_is_repeated_until_every_group_has_answered(self) -> None:
        answers = iter([[None] * 4096, [9] * 4096] * 2)
        self.write.side_effect = lambda *_: next(answers)
        self.assertEqual(1, superbench._cut(
            self.cluster, _POOL.name, 1)['super.cut_4096_pgs_s.n'])
        self.assertEqual([], list(answers))

    def test_group_that_does_not_answer_is_no_measurement(self) -> None:
        self.write.side_effect = lambda names, *_: [None] + [9] * (len(names) - 1)
        self.cluster.timeout = -1
        error = self.assertRaises(RuntimeError, superbench._cut, self.cluster, _POOL.name, 3)
        self.assertIn(_POOL.name, str(error))


class PassTest(testtools.TestCase):
    """A pass over the servers of a host."""

    def setUp(self) -> None:
        super().setUp()
        self.dirty = False
        self.together = threading.Barrier(_SERVERS, timeout=60)
        self.env = mock.Mock(**{'protocol.check.side_effect': self.check})

    def check(self, _record: sp.Record) -> mock.Mock:
        """Sweep once all other sweeps have begun."""
        place = self.together.wait()
        return mock.Mock(clean=not (self.dirty and place == 0))

    def test_all_servers_are_swept_at_the_same_time(self) -> None:
        self.assertEqual(2, collapse._passes(self.env, _REF, 2).n)
        self.assertEqual(2 * _SERVERS, self.env.protocol.check.call_count)
        self.env.protocol.abort.assert_called_once()

    def test_sweep_that_ends_early_is_no_measurement(self) -> None:
        self.dirty = True
        error = self.assertRaises(RuntimeError, collapse._passes, self.env, _REF, 1)
        self.assertIn(_REF.image, str(error))


class ClientTest(testtools.TestCase):
    """The processor time of a sweep."""

    def test_sweep_that_ends_early_is_no_measurement(self) -> None:
        env = mock.Mock(rounds=2, **{'protocol.check.return_value.objects': 4})
        self.assertEqual(2, collapse._client(env, _REF).n)
        env.protocol.check.return_value.clean = False
        error = self.assertRaises(RuntimeError, collapse._client, env, _REF)
        self.assertIn(_REF.image, str(error))


class MappedTest(testtools.TestCase):

    def test_map_says_that_all_objects_exist(self) -> None:
        stored = bytearray(struct.pack('<IBBIQ', 14, 1, 1, 8, 64) + bytes(16) + b'checksum')

        def write(_oid: str, data: bytes, offset: int) -> None:
            stored[offset:offset + len(data)] = data
        ioctx = mock.Mock(**{'write.side_effect': write, 'read.side_effect':
                          lambda _oid, length: bytes(stored[:length])})
        cluster = mock.MagicMock(**{'ioctx.return_value.__enter__.return_value': ioctx})
        self.patch(images, 'create', mock.Mock(return_value=_REF))
        self.patch(rbd, 'Image', mock.MagicMock(
            **{'return_value.__enter__.return_value.id.return_value': '1a'}))
        self.assertEqual(_REF, images.mapped(cluster, 64))
        written = fakes.Ioctx({'rbd_object_map.1a': bytes(stored)})
        self.assertEqual(64, sum(len(numbers) for numbers in objectmap.existing(written, '1a')))
        self.assertEqual(b'checksum', stored[-8:])


class BarTest(testtools.TestCase):
    """The bars of the sizes in the report, and in the documentation."""

    def test_bars_of_large_sizes_are_documented(self) -> None:
        readme = pathlib.Path(report.__file__).with_name('README.md').read_text()
        bars = {bar.key: bar for bar in report.BARS}
        for key, limit in (('super.cut_4096_pgs_s', 0.3), ('super.cut_4096_pgs_client_s', 0.3),
                           ('super.record_4096_pgs_ms', 5),
                           ('collapse.sixty_servers_pass_s', 5),
                           ('collapse.large_sweep_client_us', 10)):
            self.assertEqual(limit, bars[key].at_most)
            row = next(line for line in readme.splitlines()
                       if line.startswith('|') and f'`{key}`' in line)
            self.assertIn(f'≤ {limit:g}', row.split('|')[-2])
