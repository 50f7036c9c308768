# SPDX-License-Identifier: Apache-2.0
"""The databases of OVN and ovn-northd, for a cloud whose network is OVN."""

import functools
import pathlib
import socket

from cloud import commands
from cloud import processes
from cloud.openstack import answers
from cloud.openstack import layout

NORTHBOUND = 'ovn-northbound'
SOUTHBOUND = 'ovn-southbound'
NORTHD = 'ovn-northd'
PROGRAMS = (NORTHBOUND, SOUTHBOUND, NORTHD)

# On a busy machine a client needs longer than the default of 5 s, and would count as dead.
PROBE_MS = 60000

_SCHEMAS = {NORTHBOUND: '/usr/share/ovn/ovn-nb.ovsschema',
            SOUTHBOUND: '/usr/share/ovn/ovn-sb.ovsschema'}
# Log to the file that supervisord keeps, and nowhere else.
LOG = ('-vconsole:info', '-vsyslog:off', '-vfile:off')
_TIMEOUT = 30.0
_STOP = 5


def connection(settings: layout.Settings, database: str) -> str:
    """Return the address of one of the two databases for its clients."""
    return f'tcp:{settings.host}:{_port(settings, database)}'


def programs(files: layout.Layout, settings: layout.Settings) -> dict[str, processes.Program]:
    """Return the programs, in the order in which they start."""
    return {
        **{name: processes.Program(
            ['ovsdb-server', str(_database(files, name)), '--no-chdir',
             f'--remote=ptcp:{_port(settings, name)}:{settings.host}', *_run(files, name), *LOG],
            stop_seconds=_STOP) for name in _SCHEMAS},
        NORTHD: processes.Program(
            ['ovn-northd', '--no-chdir', f'--ovnnb-db={connection(settings, NORTHBOUND)}',
             f'--ovnsb-db={connection(settings, SOUTHBOUND)}', *_run(files, NORTHD), *LOG],
            stop_seconds=_STOP),
    }


def prepare(files: layout.Layout) -> None:
    """Make the databases unless they are there.

    :raises CloudError: a database could not be made
    """
    for name, schema in _SCHEMAS.items():
        path = _database(files, name)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            commands.run(['ovsdb-tool', 'create', str(path), schema])


def wait(settings: layout.Settings, log: object) -> None:
    """Wait until both databases answer.

    :param log: the log that the error names
    :raises CloudError: a database did not answer in time
    """
    for name in _SCHEMAS:
        answers.wait(name, functools.partial(ping, settings, name), (OSError,), log, _TIMEOUT)


def ping(settings: layout.Settings, database: str) -> None:
    """:raises OSError: a database does not answer"""
    socket.create_connection((settings.host, _port(settings, database)), timeout=5).close()


def _port(settings: layout.Settings, database: str) -> int:
    return {NORTHBOUND: settings.northbound_port, SOUTHBOUND: settings.southbound_port}[database]


def _database(files: layout.Layout, name: str) -> pathlib.Path:
    return files.state / 'ovn' / f'{name}.db'


def _run(files: layout.Layout, name: str) -> list[str]:
    """Return the arguments that keep a program's socket and pid file in the cloud's directory."""
    return [f'--pidfile={files.run / name}.pid', f'--unixctl={files.run / name}.ctl']
