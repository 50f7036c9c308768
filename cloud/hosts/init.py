# SPDX-License-Identifier: Apache-2.0
"""The first process of a compute host, which sets up its namespaces and then supervises.

It waits for a line on its standard input before it begins: by then it has its network devices.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
from typing import Any

from cloud import shares

_RUN = pathlib.Path('/run')
# Directories that programs expect below /run; they make the rest themselves.
_DIRECTORIES = ('lock', 'libvirt', 'openvswitch', 'netns')
# For sockets and the like of the host's programs, which end with the host.
_TEMPORARY = _RUN / 'tmp'


def _call(*argv: str) -> None:
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)


def _mount(conf: dict[str, Any]) -> None:
    """Hide directories of the machine behind directories of the host."""
    # The one of this network namespace.
    _call('mount', '-t', 'sysfs', 'sysfs', '/sys')
    _call('mount', '-t', 'tmpfs', '-o', 'mode=755,size=64m', 'tmpfs', str(_RUN))
    _TEMPORARY.mkdir(mode=0o1777)
    for name in (*_DIRECTORIES, pathlib.Path(conf['run']).relative_to(_RUN)):
        (_RUN / name).mkdir(parents=True)
    if pages := conf.get('huge_pages'):
        pathlib.Path(pages).mkdir()
        _call('mount', '-t', 'hugetlbfs', 'hugetlbfs', pages)
    for source, target in conf['mounts']:
        _call('mount', '--bind', source, target)


def _connect(addresses: dict[str, str]) -> None:
    """Bring the network devices up.

    :param addresses: by device; empty if it has none
    """
    _call('ip', 'link', 'set', 'lo', 'up')
    for device, address in addresses.items():
        if address:
            _call('ip', 'address', 'add', address, 'dev', device)
        _call('ip', 'link', 'set', device, 'up')


def main(path: str) -> None:
    """:param path: a file with everything that is to be known"""
    if not sys.stdin.readline():
        sys.exit('whoever started this host has gone')
    conf = json.loads(pathlib.Path(path).read_text())
    socket.sethostname(conf['name'])
    _mount(conf)
    _connect(conf['addresses'])
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    shares.prefer('self', shares.HOST)
    argv = [sys.executable, '-m', 'supervisor.supervisord', '--nodaemon', '--silent',
            '-c', conf['supervisor']]
    os.execve(argv[0], argv, os.environ | {'TMPDIR': str(_TEMPORARY)})


if __name__ == '__main__':
    main(sys.argv[1])
