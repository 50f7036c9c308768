# SPDX-License-Identifier: Apache-2.0
"""The file with the Ceph configuration of a host's backups, written when it has to change."""

import os
import pathlib

import nova.conf

from specreds_nova import conf
from specreds_nova import exception
from specreds_nova.host.disks import backup_clients

CONF = nova.conf.CONF
conf.register(CONF)

_HOST = '/etc/ceph/ceph.conf'
_NAME = 'specreds-ceph.conf'


def of_host() -> pathlib.Path:
    """Return the path of the host's own configuration."""
    return pathlib.Path(CONF.libvirt.images_rbd_ceph_conf or _HOST)


def path() -> str:
    """Write the configuration if it is not what it should be, and return its path.

    :raises StartFailed: it cannot be written
    """
    wanted = pathlib.Path(CONF.state_path, _NAME)
    host = of_host()
    try:
        content = backup_clients.text(host.read_text() if host.exists() else '')
        if not wanted.exists() or wanted.read_text() != content:
            _write(wanted, content)
    except OSError as exc:
        raise exception.StartFailed(
            reason=f'the Ceph configuration of backups cannot be written: {exc}') from exc
    return str(wanted)


def _write(wanted: pathlib.Path, content: str) -> None:
    # Several backups may start at once, each in a thread or a process of its own.
    new = wanted.with_name(f'{wanted.name}.{os.getpid()}.{id(content):x}')
    new.write_text(content)
    # QEMU reads it as another user.
    new.chmod(0o644)
    new.replace(wanted)
