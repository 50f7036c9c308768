# SPDX-License-Identifier: Apache-2.0
"""The overlay's image: its size, and its header, which has no path."""

from collections.abc import Iterator
import json
import pathlib
import re
import struct
import subprocess
from typing import Any
from unittest import mock

import ddt
import fixtures
import rados
import rbd
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.overlay import overlay
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.tests.unit import fakes

GIB = 1 << 30
_DISK = 64 << 20
# What a guest writes, and the size of a part of an L2 table in QEMU's cache.
_PATTERN, _BYTES, _ENTRIES = b'\x07', 8192, 4096


def logged(log: bytes) -> Iterator[str]:
    """Yield what a log of dm-log-writes has, in its order: data, entries, other or flush."""
    _magic, _version, count, sector = struct.unpack_from('<QQQI', log)
    at = sector
    for _ in range(count):
        _place, sectors, flags, _size = struct.unpack_from('<QQQQ', log, at)
        content = log[at + sector:at + sector * (1 + sectors)]
        at += sector + len(content)
        if flags & 1:
            yield 'flush'
        elif content == _PATTERN * _BYTES:
            yield 'data'
        else:
            yield 'entries' if len(content) == _ENTRIES else 'other'


def measured(size: int) -> int:
    """Return the size of a fully written qcow2 image, as QEMU computes it."""
    options = f'extended_l2=on,cluster_size={overlay.CLUSTER_SIZE}'
    done = subprocess.run(['qemu-img', 'measure', '--output=json', '-O', 'qcow2', '-o', options,
                           '--size', str(size)], check=True, capture_output=True, timeout=60)
    allocated: int = json.loads(done.stdout)['fully-allocated']
    return allocated


@ddt.ddt
class PresizedTest(testtools.TestCase):

    @ddt.data(512, 1 << 20, GIB, GIB + 512, 100 * GIB, 4096 * GIB, 16384 * GIB)
    def test_presized_image_holds_a_full_overlay(self, size: int) -> None:
        self.assertGreater(overlay.presized(size), measured(size))
        # The image is thin, but must not look much larger than the volume.
        self.assertLess(overlay.presized(size), size + size // 100 + (128 << 20))


class HeaderTest(testtools.TestCase):

    def header(self, size: int) -> bytes:
        """Return the header, joined from its blocks."""
        blocks = overlay._header(size)
        whole = bytearray(max(offset + len(data) for offset, data in blocks))
        for offset, data in blocks:
            whole[offset:offset + len(data)] = data
        return bytes(whole)

    def test_header_is_small_and_cached_by_size(self) -> None:
        self.assertLess(sum(len(data) for _offset, data in overlay._header(4096 * GIB)),
                        64 << 10)
        self.assertIs(overlay._header(GIB), overlay._header(GIB))

    def test_header_has_version_size_and_features(self) -> None:
        magic, version, backing, backing_size, cluster_bits, size = struct.unpack_from(
            '>4sIQIIQ', self.header(3 * GIB))
        self.assertEqual((b'QFI\xfb', 3, 0, 0, 14, 3 * GIB),
                         (magic, version, backing, backing_size, cluster_bits, size))
        incompatible, compatible = struct.unpack_from('>QQ', self.header(3 * GIB), 72)
        # Extended L2 entries; no lazy reference counts.
        self.assertEqual((16, 0), (incompatible, compatible))

    def test_header_makes_a_valid_qcow2_image(self) -> None:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'overlay')
        with path.open('wb') as image:
            # As a new RBD image, which reads as zeros elsewhere.
            image.truncate(overlay.presized(3 * GIB))
            image.write(self.header(3 * GIB))
        info = self.qemu_img('info', path)
        data = info['format-specific']['data']
        self.assertEqual((3 * GIB, True, False), (info['virtual-size'], data['extended-l2'],
                                                 data['lazy-refcounts']))
        for key in ('backing-filename', 'data-file', 'snapshots'):
            self.assertNotIn(key, {**info, **data})
        check = self.qemu_img('check', path)
        self.assertEqual([0] * 4, [check.get(key, 0) for key in (
            'check-errors', 'corruptions', 'leaks', 'allocated-clusters')])

    def test_data_is_flushed_before_the_entry_that_names_it_is_written(self) -> None:
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        files = {name: directory / name for name in ('overlay', 'log')}
        for path in files.values():
            with path.open('wb') as image:
                image.truncate(overlay.presized(_DISK) if path == files['overlay'] else 0)
        with files['overlay'].open('r+b') as image:
            image.write(self.header(_DISK))
        file, log = ({'driver': 'file', 'filename': str(files[name])}
                     for name in ('overlay', 'log'))
        node = {'driver': 'qcow2', 'l2-cache-entry-size': _ENTRIES,
                'file': {'driver': 'blklogwrites', 'file': file, 'log': log}}
        # In a new cluster, beside it in the same one, and in another new one.
        writes = [words for offset in (0, 2 * _BYTES, overlay.CLUSTER_SIZE)
                  for words in ('-c', f'write -P {_PATTERN[0]} {offset} {_BYTES}', '-c', 'flush')]
        subprocess.run(['qemu-io', *writes, f'json:{json.dumps(node)}'], check=True,
                       capture_output=True, timeout=60)
        # What was written since the latest flush: the guest's data?
        volatile, entries = False, 0
        for kind in logged(files['log'].read_bytes()):
            if kind == 'entries':
                self.assertFalse(volatile, 'an L2 entry was written beside its data')
                entries += 1
            volatile = kind == 'data' or (volatile and kind != 'flush')
        self.assertGreaterEqual(entries, 3)

    def qemu_img(self, command: str, path: pathlib.Path) -> Any:
        """Return the report of qemu-img about an image."""
        done = subprocess.run(['qemu-img', command, '-f', 'qcow2', '--output=json', str(path)],
                              check=True, capture_output=True, timeout=60)
        return json.loads(done.stdout)

    def test_header_has_no_path(self) -> None:
        # Feature names aside, which never have a slash before a lower-case word.
        self.assertIsNone(re.search(rb'/[a-z]{2,}/', self.header(GIB)))

    def test_missing_qemu_img_names_the_package(self) -> None:
        overlay._header.cache_clear()
        overlay._qcow2.cache_clear()
        with mock.patch.object(subprocess, 'run', side_effect=FileNotFoundError):
            error = self.assertRaises(errors.SuperError, overlay._header, GIB)
        self.assertIn('install qemu-utils', str(error))

    def test_failure_of_qemu_img_names_the_size(self) -> None:
        error = self.assertRaises(errors.SuperError, overlay._header, 1 << 62)
        self.assertIn(str(1 << 62), str(error))


class NameTest(testtools.TestCase):

    def test_overlays_of_two_superpositions_have_different_names(self) -> None:
        names = {overlay.name('vol', records.new_id()) for _ in range(100)}
        self.assertEqual(100, len(names))
        self.assertTrue(all(name.startswith('vol.super-') for name in names))

    def test_name_does_not_begin_with_the_id_of_a_server(self) -> None:
        image, superposition = f'{records.new_id()}_disk', records.new_id()
        self.assertEqual(f'super-{superposition[:13]}.{image}',
                         overlay.name(image, superposition))


class MetadataTest(testtools.TestCase):
    """The options that an overlay's image sets for its clients."""

    def metadata(self, **base: str) -> dict[str, str]:
        """Return the metadata of a new overlay.

        :param base: those of the image of the volume
        """
        cluster = mock.MagicMock()
        io = cluster.ioctx.return_value.__enter__.return_value
        encoded = b''.join([struct.pack('<I', len(base)), *(
            struct.pack(f'<I{len(text)}s', len(text), text.encode())
            for pair in sorted(base.items()) for text in pair)])
        requests = {}

        def execute(header: str, _class: str, method: str, data: bytes, *_length: int
                    ) -> tuple[int, bytes]:
            requests[header, method] = data
            return len(encoded), encoded
        io.execute.side_effect = execute
        io.get_last_version.return_value = 5
        with mock.patch.object(rbd, 'RBD'), mock.patch.object(rbd, 'Image') as image, \
                mock.patch.object(rados, 'WriteOpCtx') as context:
            operation = mock.Mock(unsafe=True)
            context.return_value.__enter__.return_value = operation
            opened = image.return_value.__enter__.return_value
            opened.id.return_value = '2b'
            opened.block_name_prefix.return_value = 'rbd_data.2b'
            overlay.create(cluster, fakes.volume())
        self.assertEqual({('rbd_header.1a', 'metadata_list')}, requests.keys())
        io.operate_write_op.assert_called_once_with(operation, 'rbd_header.2b')
        operation.assert_version.assert_called_once_with(5)
        [(_class, method, data)] = [call.args for call in operation.execute.call_args_list]
        self.assertEqual('metadata_set', method)
        count, = struct.unpack_from('<I', data)
        texts, place = [], 4
        while place < len(data):
            length, = struct.unpack_from('<I', data, place)
            texts.append(data[place + 4:place + 4 + length].decode())
            place += 4 + length
        self.assertEqual(count * 2, len(texts))
        self.assertEqual(sorted(texts[::2]), texts[::2])
        return dict(zip(texts[::2], texts[1::2], strict=True))

    def test_overlay_is_cached(self) -> None:
        self.assertEqual({f'conf_{key}': value for key, value in overlay.CACHE.items()},
                         self.metadata())

    def test_overlay_has_the_limits_of_its_volume(self) -> None:
        limits = {'conf_rbd_qos_iops_limit': '400', 'conf_rbd_qos_bps_burst': '5000000'}
        metadata = self.metadata(**limits, conf_rbd_readahead_max_bytes='0', zone='3')
        self.assertLessEqual(limits.items(), metadata.items())
        self.assertNotIn('conf_rbd_readahead_max_bytes', metadata)
        self.assertNotIn('zone', metadata)
