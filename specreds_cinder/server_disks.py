# SPDX-License-Identifier: Apache-2.0
"""Server disks: the disks that Nova itself keeps in RBD, named after their server.

They are no volumes: Cinder's database does not know them. The options of group ``[specreds]`` say
which back end superposes them, and in which pool they are.
"""

import dataclasses
import re

from oslo_config import cfg

from specreds_cinder import conf
from specreds_cinder import exception

CONF = cfg.CONF
conf.register(CONF)

# Nova's names of the disks of a server (nova/virt/libvirt/blockinfo.py) that it keeps in RBD.
NAME = r'disk(\.(config|local|swap|eph[0-9]{1,3}))?'
SERVER = r'[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}'
_ID = re.compile(rf'(?P<server>{SERVER})_(?P<name>{NAME})')


@dataclasses.dataclass(frozen=True)
class ServerDisk:
    """A disk of a server; ``id`` and ``name`` are what a volume has under these names.

    :param server_id: id of the server
    :param disk: Nova's name of the disk, such as ``disk.eph0``
    """

    server_id: str
    disk: str

    @classmethod
    def parse(cls, text: str) -> 'ServerDisk':
        """Return the disk that an id names.

        :raises SuperpositionInvalid: the id names no disk of a server
        """
        match = _ID.fullmatch(text)
        if match is None:
            raise exception.SuperpositionInvalid(
                f'{text!r} is no disk of a server: write SERVER_ID_disk, or SERVER_ID_disk. with '
                f'config, local, swap or ephN')
        return cls(match['server'].lower(), match['name'])

    @property
    def id(self) -> str:
        """Return the name of the disk's RBD image."""
        return f'{self.server_id}_{self.disk}'

    name = id


def is_id(text: str) -> bool:
    """Return whether a text is the id of a server's disk."""
    return _ID.fullmatch(text) is not None


def configured() -> str | None:
    """Return the back end, or its cluster, that superposes server disks; None without one."""
    return CONF.specreds.server_disks_backend or None


def backend() -> str:
    """Return the back end, or its cluster, that superposes server disks.

    :raises SuperpositionInvalid: there is none
    """
    host = configured()
    if host is None:
        raise exception.SuperpositionInvalid(
            'disks of servers cannot be superposed here: server_disks_backend in group [specreds] '
            'of cinder.conf names no back end')
    return host
