# SPDX-License-Identifier: Apache-2.0
"""The file with the Ceph configuration of a host's backups, written when it has to change."""

import os
import pathlib
import re

import nova.conf

from specreds_nova import cache_policy
from specreds_nova import conf
from specreds_nova import exception

CONF = nova.conf.CONF
conf.register(CONF)

_HOST = '/etc/ceph/ceph.conf'
_NAME = 'specreds-ceph.conf'
OPTIONS = {
    # Cinder decides what is fenced: a backup that takes the lock of a primary which does not
    # answer must not blocklist the primary.
    'rbd_blocklist_on_break_lock': 'false',
    # A backup that copied what it reads of a cloned volume into the volume would make it dirty.
    'rbd_clone_copy_on_read': 'false',
    # Boot loaders read kernel and initrd in many small requests, one after the other, each of
    # which waits for the network. Ceph reads ahead, but its default cache keeps nothing of that.
    # A promoted server goes on with these options: its writes to the volume must not be cached.
    cache_policy.OPTION: cache_policy.SAFE,
    'rbd_readahead_max_bytes': '4194304',
}

_LEFT_OUT = {'key', *OPTIONS}
_OPTION = re.compile(r'\s*([^=;#\[]+?)\s*=')
_CLIENT = re.compile(r'^[ \t]*\[client\].*$', re.MULTILINE)


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
        content = text(host.read_text() if host.exists() else '')
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


def text(host: str) -> str:
    """Return the configuration of backups.

    :param host: the content of the host's own
    """
    lines = [line for line in host.replace('\\\n', ' ').splitlines() if not _left_out(line)]
    options = '\n'.join(f'{name} = {value}' for name, value in OPTIONS.items())
    rest = '\n'.join(lines)
    if not _CLIENT.search(rest):
        return f'{rest}\n\n[client]\n{options}\n'.lstrip('\n')
    return _CLIENT.sub(lambda match: f'{match[0]}\n{options}', rest, count=1) + '\n'


def _left_out(line: str) -> bool:
    """Report whether a line sets an option that is a secret, or that backups have otherwise."""
    option = _OPTION.match(line)
    return option is not None and re.sub(r'[\s_-]+', '_', option[1]) in _LEFT_OUT
