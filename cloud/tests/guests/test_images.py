# SPDX-License-Identifier: Apache-2.0
"""The creation and the cache of guests' images, without a distribution's archive."""

import lzma
import pathlib
import stat
import struct
import subprocess
from unittest import mock

import ddt
import fixtures
import testtools

from cloud import commands
from cloud.guests import build
from cloud.guests import disk
from cloud.guests import g2
from cloud.guests import images
from cloud.guests import kernel
from cloud.guests import packages


class _Scratch(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)


class ImageTestCase(_Scratch):

    def setUp(self) -> None:
        super().setUp()
        self.made = 0
        self.versions = ['1']
        for target, name, new in (
                (images, '_wanted', lambda *_: [packages.Package('a', self.versions[-1])]),
                (packages.Archive, 'download', lambda *_: None),
                (build, 'workshop', lambda *_: None),
                (images, 'GUESTS', {'g1': build.Guest((), bool, self._make)})):
            patcher = mock.patch.object(target, name, new)
            self.addCleanup(patcher.stop)
            patcher.start()

    def _make(self, _shop: build.Workshop, image: pathlib.Path) -> dict[str, object]:
        self.made += 1
        image.write_text(self.versions[-1])
        return {'ready': 'yes'}

    def _image(self) -> pathlib.Path:
        return images.image('g1', cache=self.root)

    def test_image_is_created_once(self) -> None:
        self.assertEqual(self._image(), self._image())
        self.assertEqual(1, self.made)
        self.assertEqual('yes', images.describe('g1', cache=self.root)['ready'])

    def test_other_package_creates_another_image(self) -> None:
        old = self._image()
        self.versions.append('2')
        self.assertEqual('2', self._image().read_text())
        self.assertFalse(old.exists())

    def test_existing_image_is_used_without_an_archive(self) -> None:
        old = self._image()
        with mock.patch.object(images, '_wanted', side_effect=commands.CloudError('no network')):
            self.assertEqual(old, self._image())

    def test_missing_archive_and_image_is_an_error(self) -> None:
        with mock.patch.object(images, '_wanted', side_effect=commands.CloudError('no network')):
            self.assertRaisesRegex(commands.CloudError, 'no network', self._image)

    def test_failed_creation_leaves_no_file(self) -> None:
        failing = mock.Mock(side_effect=commands.CloudError('disk full'))
        with mock.patch.object(images, 'GUESTS', {'g1': build.Guest((), bool, failing)}):
            self.assertRaisesRegex(commands.CloudError, 'disk full', self._image)
        self.assertEqual([], list(self.root.glob('g1-*')))

    def test_secret_files_are_readable_by_the_owner_only(self) -> None:
        mode = stat.S_IMODE(self._image().with_name('image.json').stat().st_mode)
        self.assertEqual(0o600, mode)

    def test_the_password_stays(self) -> None:
        self.assertEqual(images._password(self.root), images._password(self.root))
        self.assertEqual(0o600, stat.S_IMODE((self.root / 'password').stat().st_mode))

    def test_no_such_guest(self) -> None:
        self.assertRaisesRegex(commands.CloudError, 'there is no guest g9', images.image, 'g9',
                               cache=self.root)


class PackagesTestCase(_Scratch):

    def test_closure(self) -> None:
        said = ("'http://a/pool/b_1%3a2-3_amd64.deb' b_1%3a2-3_amd64.deb 100 SHA256:x\n"
                "'http://a/pool/a_1_all.deb' a_1_all.deb 7 \n")
        with mock.patch.object(commands, 'run', return_value=said):
            closure = packages.Archive(self.root).closure(['b'])
        self.assertEqual([packages.Package('a', '1'), packages.Package('b', '1:2-3')], closure)
        self.assertEqual('b=1:2-3', str(closure[1]))

    def test_old_lists_are_read_anew_once(self) -> None:
        answers = iter([commands.CloudError('404'), '', ''])
        with mock.patch.object(commands, 'run', side_effect=answers) as run:
            packages.Archive(self.root).closure(['b'])
        self.assertIn('update', run.call_args_list[1].args[0])
        self.assertIn(f'Dir::State::lists={self.root}/lists', run.call_args_list[2].args[0])


class ToolsTestCase(_Scratch):

    def test_busybox_of_a_split_and_of_a_merged_usr(self) -> None:
        for name in ('bin/busybox', 'usr/bin/busybox'):
            busybox = self.root / name / 'tools' / name
            busybox.parent.mkdir(parents=True)
            busybox.touch()
            shop = build.Workshop(self.root, {}, self.root / name / 'tools', mock.Mock(), '',
                                  commands.silent)
            self.assertEqual(busybox, shop.busybox)


class LoaderTestCase(_Scratch):

    def test_loader_of_a_merged_usr_is_linked(self) -> None:
        (self.root / 'usr/lib64').mkdir(parents=True)
        (self.root / 'usr/lib64/ld.so').touch()
        g2.link_loader(self.root)
        self.assertTrue((self.root / 'lib64/ld.so').exists())

    def test_packaged_loader_stays(self) -> None:
        (self.root / 'lib64').mkdir()
        (self.root / 'lib64/ld.so').touch()
        g2.link_loader(self.root)
        self.assertTrue((self.root / 'lib64/ld.so').exists())


@ddt.ddt
class KernelTestCase(_Scratch):

    def setUp(self) -> None:
        super().setUp()
        (self.root / 'boot').mkdir()
        (self.root / 'boot/vmlinuz-6.1').write_text('kernel')
        self.modules = self.root / 'lib/modules/6.1/kernel'
        self.modules.mkdir(parents=True)
        for name, depends in (('virtio_net', 'net_failover,virtio'), ('net-failover', 'failover'),
                              ('failover', ''), ('virtio', '')):
            (self.modules / f'{name}.ko').write_bytes(
                b'ELF\0license=GPL\0depends=' + depends.encode() + b'\0')
        (self.modules.parent / 'modules.builtin').write_text(
            ''.join(f'kernel/{name}.ko\n' for name in ('built-in', *kernel.MODULES)
                    if name != 'virtio_net'))

    def modules_of(self, *names: str) -> list[str]:
        return [module.name for module in kernel.Kernel(self.root).modules(names)]

    def test_modules_come_after_those_they_need(self) -> None:
        self.assertEqual(['failover.ko', 'net-failover.ko', 'virtio.ko', 'virtio_net.ko'],
                         self.modules_of('virtio_net', 'built_in', 'virtio'))

    def test_compressed_modules_of_a_merged_usr(self) -> None:
        plain = (self.modules / 'virtio_net.ko').read_bytes()
        for path in self.modules.glob('*.ko'):
            path.with_suffix('.ko.xz').write_bytes(lzma.compress(path.read_bytes()))
            path.unlink()
        (self.root / 'usr/lib').mkdir(parents=True)
        (self.root / 'lib/modules').rename(self.root / 'usr/lib/modules')
        modules = kernel.Kernel(self.root).modules(['virtio_net'])
        self.assertEqual(['failover.ko', 'net-failover.ko', 'virtio.ko', 'virtio_net.ko'],
                         [module.name for module in modules])
        self.assertEqual(plain, modules[-1].content)

    def test_kernel_is_found_beside_its_modules(self) -> None:
        (self.root / 'usr/lib').mkdir(parents=True)
        (self.root / 'lib/modules').rename(self.root / 'usr/lib/modules')
        image = self.root / 'usr/lib/modules/6.1/vmlinuz'
        (self.root / 'boot/vmlinuz-6.1').rename(image)
        unpacked = kernel.Kernel(self.root)
        self.assertEqual((image, '6.1'), (unpacked.image, unpacked.version))
        self.assertEqual(4, len(unpacked.modules(['virtio_net'])))

    @ddt.data(
        ('linux-image-6.12.48+deb13-cloud-amd64', True), ('linux-image-cloud-amd64', False),
        ('linux-base-7.2.13+deb14-cloud-amd64', True), ('linux-base-cloud-amd64', False),
        ('linux-binary-7.2.13+deb14-cloud-amd64', True), ('linux-base', False),
        ('linux-modules-7.2.13+deb14-cloud-amd64', True), ('busybox-static', False))
    @ddt.unpack
    def test_kernel_may_be_in_several_packages(self, name: str, expected: bool) -> None:
        self.assertEqual(expected, build.is_kernel(name))

    def test_modules_of_ubuntu_are_unpacked_by_zstd(self) -> None:
        (self.modules / 'virtio.ko').rename(self.modules / 'virtio.ko.zst')
        with mock.patch.object(subprocess, 'run') as run:
            run.return_value.stdout = b'ELF\0depends=failover\0'
            self.assertEqual(['failover.ko', 'virtio.ko'], self.modules_of('virtio'))
        self.assertEqual(['zstd', '-dcq', str(self.modules / 'virtio.ko.zst')],
                         run.call_args.args[0])

    def test_module_that_cannot_be_unpacked_is_an_error(self) -> None:
        for suffix, words in (('.ko.xz', 'cannot be unpacked'), ('.ko.bz2', 'unknown way')):
            (self.modules / f'virtio{suffix}').write_bytes(b'no archive')
            (self.modules / 'virtio.ko').unlink(missing_ok=True)
            self.assertRaisesRegex(commands.CloudError, words, self.modules_of, 'virtio')
            (self.modules / f'virtio{suffix}').unlink()

    def test_missing_module_is_an_error(self) -> None:
        self.assertRaisesRegex(commands.CloudError, 'no module virtio_gone',
                               self.modules_of, 'virtio_net', 'virtio_gone')

    def test_two_kernels(self) -> None:
        (self.root / 'boot/vmlinuz-6.2').write_text('kernel')
        self.assertRaisesRegex(commands.CloudError, '2 kernels', kernel.Kernel, self.root)

    def test_initramfs(self) -> None:
        target = self.root / 'initrd'
        (self.root / 'init').write_text('#!/bin/sh')
        kernel.initramfs(target, kernel.Kernel(self.root), self.root / 'init',
                         {'init': self.root / 'init'}, ['sh'])
        archive = target.read_bytes()
        self.assertEqual(b'070701', archive[:6])
        self.assertEqual(0, len(archive) % 4)
        for name in (b'modules/order', b'modules/virtio.ko', b'bin/sh', b'TRAILER!!!'):
            self.assertIn(name + b'\0', archive)


class DiskTestCase(_Scratch):

    def test_partitions(self) -> None:
        mbr = self.root / 'usr/lib/syslinux/mbr'
        mbr.mkdir(parents=True)
        (mbr / 'mbr.bin').write_bytes(b'boot' * 110)
        image = self.root / 'disk'
        with mock.patch.object(commands, 'run') as run:
            offset = disk.write(image, self.root, {'vmlinuz': image}, 'quiet', 24, 2)
        self.assertEqual(25 << 20, offset)
        self.assertEqual(27 << 20, image.stat().st_size)
        sector = image.read_bytes()[:512]
        self.assertEqual(b'\x55\xaa', sector[510:])
        entries = [struct.unpack('<B3xB3xII', sector[446 + 16 * number:][:16])
                   for number in range(2)]
        self.assertEqual([(0x80, 0x0c, 2048, 24 * 2048), (0, 0x83, 25 * 2048, 2 * 2048)], entries)
        self.assertEqual(['mformat', *['mmd'] * 3, *['mcopy'] * 5, 'syslinux'],
                         [call.args[0][0] for call in run.call_args_list])
        self.assertEqual({'::vmlinuz', '::syslinux.cfg', '::EFI/debian/grub.cfg',
                          '::EFI/BOOT/BOOTX64.EFI', '::EFI/BOOT/grubx64.efi'},
                         {call.args[0][-1] for call in run.call_args_list
                          if call.args[0][0] == 'mcopy'})


class WaitingTestCase(testtools.TestCase):
    """A guest's wait for its service, by this machine's shell."""

    def wait_for(self, process: str, command: str) -> int:
        """Return the exit status of the wait.

        :param process: a shell command, in the background
        :param command: what is to succeed
        """
        return subprocess.run(
            ['sh', '-c', '. "$0"; usleep() { sleep 0.01; }; eval "$1 &"; '
             'wait_for $! $2; status=$?; kill $!; exit $status',
             str(build.COMMON / 'guest.sh'), process, command],
            stderr=subprocess.DEVNULL, timeout=60).returncode

    def test_service_that_ends_is_not_waited_for(self) -> None:
        self.assertEqual(1, self.wait_for('sleep 0.1', 'false'))

    def test_probe_that_cannot_be_run_is_not_repeated(self) -> None:
        self.assertEqual(1, self.wait_for('exec sleep 60', '/nonexistent'))

    def test_service_that_begins_is_waited_for(self) -> None:
        ready = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'ready')
        self.assertEqual(0, self.wait_for(f'{{ sleep 0.1; touch {ready}; exec sleep 60; }}',
                                          f'test -e {ready}'))
