# SPDX-License-Identifier: Apache-2.0
"""The Ceph configuration of backups: the host's own, and options for backups only.

QEMU reads one file for each image, so this file repeats the host's ``ceph.conf`` without keys:
libvirt passes the key to QEMU itself. Other servers use the host's file.
"""

import re

from specreds_nova import cache_policy

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
