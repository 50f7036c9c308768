# SPDX-License-Identifier: Apache-2.0
"""Guest G2: PostgreSQL on a real file system, with the guest agent.

User ``tenant`` may use database ``tenant`` over the network with a password; on the guest's
console ``su postgres`` may do anything.
"""

import os
import pathlib
import pwd
import shutil
import subprocess

from cloud import commands
from cloud.guests import build
from cloud.guests import disk
from cloud.guests import kernel as kernels
from cloud.guests import packages

_FILES = build.FILES / 'g2'
_BOOT_MIB, _ROOT_MIB = 24, 998
_UUID = '6e1e5bd0-0000-4000-8000-000000000011'
_POSTGRES = 103
_TIMEOUT = 120.0

# What its packages ask for, but a server that only runs does not use.
_UNWANTED = (
    'adduser', 'coreutils', 'debconf', 'dpkg', 'gcc-', 'init-system-helpers', 'libbsd', 'libdb5',
    'libedit', 'libgdbm', 'libjson-perl', 'libllvm', 'libmd0', 'libperl', 'libsemanage',
    'libsepol', 'libz3', 'locales', 'netbase', 'openssl', 'passwd', 'perl', 'postgresql-client-c',
    'postgresql-common', 'readline-common', 'sensible-utils', 'ssl-cert', 'sysvinit', 'tar', 'ucf')
_EXCLUDED = (
    './usr/share/doc/*', './usr/share/man/*', './usr/share/locale/*', './usr/share/bug/*',
    './usr/share/lintian/*', './usr/share/postgresql/*/man/*', './usr/share/zoneinfo/right/*',
    './usr/share/zoneinfo/posix/*', '*/bitcode/*', '*llvmjit*', './usr/lib/*/gconv/*',
    './var/run', './var/run/*')

_PASSWD = """\
root:x:0:0:root:/root:/bin/sh
postgres:x:{uid}:{uid}::/var/lib/postgresql:/bin/sh
"""
_GROUP = """\
root:x:0:
postgres:x:{uid}:
"""


def _make(shop: build.Workshop, image: pathlib.Path) -> dict[str, object]:
    root = shop.root / 'root'
    _tree(shop, root)
    shop.progress('making a PostgreSQL database')
    _database(root, shop.password)
    shop.progress('writing the disk')
    initrd = shop.root / 'initrd'
    kernels.initramfs(initrd, shop.kernel, shop.busybox, {
        'init': _FILES / 'init', 'lib/boot.sh': build.COMMON / 'boot.sh'}, shop.applets())
    data = disk.write(image, shop.tools, {'vmlinuz': shop.kernel.image, 'initrd': initrd},
                      build.CMDLINE, _BOOT_MIB, _ROOT_MIB)
    _file_system(shop, root, image, data)
    return {'ready': 'G2-READY', 'port': 5432, 'user': 'tenant', 'database': 'tenant',
            'password': shop.password}


def link_loader(root: pathlib.Path) -> None:
    """Make the dynamic loader available at the path that programs contain.

    Since Debian 13, libc6 installs it in /usr/lib64, and base-files, which is not in the guest,
    links /lib64 to that.
    """
    if not os.path.lexists(root / 'lib64'):
        (root / 'lib64').symlink_to('usr/lib64')


def _tree(shop: build.Workshop, root: pathlib.Path) -> None:
    """Lay out the guest's files."""
    for name in ('bin', 'sbin', 'dev', 'etc/acpi/PWRF', 'lib', 'proc', 'root', 'run', 'sys',
                 'tmp', 'var/lib/postgresql', 'var/log'):
        (root / name).mkdir(parents=True)
    for name, deb in shop.debs.items():
        if name not in build.TOOLS and not build.is_kernel(name):
            packages.extract(deb, root, _EXCLUDED)
    link_loader(root)
    versions = list((root / 'usr/lib/postgresql').iterdir())
    if len(versions) != 1:
        raise commands.CloudError(f'expected one PostgreSQL, not {len(versions)}')
    (root / 'usr/lib/postgresql/bin').symlink_to(f'{versions[0].name}/bin')
    (root / 'var/run').symlink_to('/run')
    (root / 'etc/passwd').write_text(_PASSWD.format(uid=_POSTGRES))
    (root / 'etc/group').write_text(_GROUP.format(uid=_POSTGRES))
    (root / 'etc/hosts').write_text('127.0.0.1 localhost g2\n')
    (root / 'etc/nsswitch.conf').write_text('passwd: files\ngroup: files\nhosts: files dns\n')
    for source, target in (
            (_FILES / 'guest-init', 'sbin/guest-init'), (_FILES / 'guest-stop', 'sbin/guest-stop'),
            (build.COMMON / 'guest.sh', 'lib/guest.sh'), (build.COMMON / 'lease', 'sbin/lease'),
            (build.COMMON / 'power-button', 'etc/acpi/PWRF/00000080'),
            (shop.busybox, 'bin/busybox')):
        shutil.copy(source, root / target)
    for applet in shop.applets():
        if not any(os.path.lexists(root / where / applet)
                   for where in ('bin', 'sbin', 'usr/bin', 'usr/sbin')):
            (root / 'bin' / applet).symlink_to('busybox')


def _database(root: pathlib.Path, password: str) -> None:
    """Make the database with the guest's own PostgreSQL, which refuses to run as root."""
    programs = root / 'usr/lib/postgresql/bin'
    target = root / 'var/lib/postgresql/data'
    target.mkdir(mode=0o700)
    account: dict[str, int | list[int]] = {}
    if os.geteuid() == 0:
        # initdb looks its user up on this machine. The guest's user owns the files in the image.
        user = pwd.getpwnam('nobody')
        account = {'user': user.pw_uid, 'group': user.pw_gid, 'extra_groups': []}
        os.chown(target, user.pw_uid, user.pw_gid)

    def run(*argv: str | pathlib.Path, stdin: str = '') -> None:
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, timeout=_TIMEOUT, cwd='/',
            env={'LC_ALL': 'C', 'TZ': 'UTC', 'LD_LIBRARY_PATH': ':'.join(
                str(path) for path in (root / 'usr/lib/x86_64-linux-gnu',
                                       root / 'lib/x86_64-linux-gnu'))},
            **account)  # type: ignore[call-overload]
        # In single-user mode a statement that fails is only told on stderr.
        if done.returncode or 'ERROR:' in done.stderr:
            raise commands.CloudError(f'{argv[0]} failed: {done.stderr.strip()}')

    run(programs / 'initdb', '-D', target, '-U', 'postgres', '--auth-local=trust',
        '--auth-host=scram-sha-256', '-E', 'UTF8', '--locale=C', '--no-sync')
    with (target / 'postgresql.conf').open('a') as file:
        file.write((_FILES / 'postgresql.conf').read_text())
    with (target / 'pg_hba.conf').open('a') as file:
        file.write('host tenant tenant 0.0.0.0/0 scram-sha-256\n')
    single = (programs / 'postgres', '--single', '-F', '-j', '-D', target)
    run(*single, 'postgres', stdin=f"CREATE ROLE tenant LOGIN PASSWORD '{password}';\n\n"
        'CREATE DATABASE tenant;\n\n')
    run(*single, 'tenant', stdin=(build.COMMON / 'schema.sql').read_text().replace(';\n', ';\n\n'))


def _file_system(shop: build.Workshop, root: pathlib.Path, image: pathlib.Path,
                 offset: int) -> None:
    """Make the root file system; everything is root's but the database."""
    disk.file_system(image, offset, root, _ROOT_MIB, '-J', 'size=16', '-N', '16384',
                     '-L', 'g2root', '-U', _UUID)
    script = shop.root / 'owners'
    data = pathlib.PurePosixPath('var/lib/postgresql')
    with script.open('w') as file:
        for path in (root, *root.rglob('*')):
            name = path.relative_to(root)
            owner = _POSTGRES if name.is_relative_to(data) else 0
            for field in ('uid', 'gid'):
                file.write(f'sif "/{name}" {field} {owner}\n')
    commands.run(['debugfs', '-w', '-f', str(script), f'{image}?offset={offset}'],
                 _TIMEOUT, {'PATH': '/usr/sbin:/sbin:/usr/bin:/bin'})


def _unwanted(name: str) -> bool:
    return name.startswith(_UNWANTED)


GUEST = build.Guest(('postgresql', 'qemu-guest-agent', 'tzdata'), _unwanted, _make)
