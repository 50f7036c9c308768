# SPDX-License-Identifier: Apache-2.0
"""A MariaDB of the cloud's own."""

from collections.abc import Iterable, Mapping
import getpass
import os
import shutil
from typing import Any

import pymysql

from cloud import commands
from cloud import processes
from cloud.openstack import answers
from cloud.openstack import files as private
from cloud.openstack import layout

# The databases of each service; its user has the service's name, and so has its own password.
_SERVICES = {'keystone': ('keystone',), 'cinder': ('cinder',)}
_COMPUTE = {'placement': ('placement',),
            'nova': ('nova', 'nova_api', 'nova_cell0', layout.SECOND_DATABASE),
            'glance': ('glance',), 'neutron': ('neutron',)}
_ENGINE = {'specreds': ('specreds',)}
# A service that is added to a cloud for a while, in a database that is made anew each time.
_GUEST = ('masakari',)
ACCOUNTS = tuple(f'mariadb-{service}' for service in (*_SERVICES, *_COMPUTE, *_ENGINE, *_GUEST))
_TIMEOUT = 60.0

# What is committed survives a death of the server, not one of the machine: this saves waiting
# for the disk. Only the owner of the data directory gets at the socket, and is root there.
_CONF = """\
[mysqld]
{user}datadir = {data}
socket = {socket}
pid-file = {run}/mariadb.pid
tmpdir = {tmp}
bind-address = {host}
port = {port}
skip-name-resolve
max_connections = 1024
innodb_buffer_pool_size = 256M
innodb_flush_log_at_trx_commit = 2
character-set-server = utf8mb4
"""


def services(settings: layout.Settings) -> dict[str, tuple[str, ...]]:
    """Return the databases of each service."""
    return (_SERVICES | (_COMPUTE if settings.hosts else {})
            | (_ENGINE if settings.engine_numbers else {}))


def url(settings: layout.Settings, service: str, passwords: Mapping[str, str],
        name: str = '') -> str:
    """SQLAlchemy's URL of a service's database; it has a password in it.

    :param name: of the database, where the service has several
    """
    return (f'mysql+pymysql://{service}:{passwords[f"mariadb-{service}"]}@{settings.host}:'
            f'{settings.database_port}/{name or service}?charset=utf8mb4')


def prepare(files: layout.Layout, settings: layout.Settings) -> None:
    """Make an empty data directory if there is none.

    :raises CloudError: MariaDB's program for that failed
    """
    tmp = files.state / 'mariadb-tmp'
    tmp.mkdir(parents=True, exist_ok=True)
    root = os.getuid() == 0
    private.write(files.database_conf, _CONF.format(
        user='user = root\n' if root else '', data=files.database, tmp=tmp, run=files.run,
        socket=files.database_socket, host=settings.host, port=settings.database_port))
    if files.database.exists():
        return
    fresh = files.database.with_name('mariadb.new')
    shutil.rmtree(fresh, ignore_errors=True)
    commands.run(['mariadb-install-db', '--no-defaults', f'--datadir={fresh}',
                  '--skip-test-db', '--auth-root-authentication-method=socket',
                  f'--auth-root-socket-user={getpass.getuser()}',
                  *(['--user=root'] if root else [])], timeout=120)
    fresh.rename(files.database)


def program(files: layout.Layout) -> processes.Program:
    """Return the program of the server."""
    return processes.Program(['/usr/sbin/mariadbd', f'--defaults-file={files.database_conf}'],
                             stop_seconds=15)


def ping(files: layout.Layout) -> None:
    """:raises pymysql.Error: the server does not answer"""
    _connect(files).close()


def wait(files: layout.Layout, log: object) -> None:
    """Wait until the server answers.

    :param log: the log that the error names
    :raises CloudError: it did not in time
    """
    answers.wait('MariaDB', lambda: ping(files), (pymysql.Error,), log, _TIMEOUT)


def create(files: layout.Layout, settings: layout.Settings, passwords: Mapping[str, str],
           unfinished: Iterable[str]) -> None:
    """Make each service's empty databases and its user, unless they are there.

    :param unfinished: services of which an interrupted attempt may have left some of their
        tables, which cannot be completed: their databases are made anew
    """
    known = services(settings)
    with _connect(files) as connection, connection.cursor() as cursor:
        for service in unfinished:
            _drop(cursor, service, known[service])
        for service, names in known.items():
            _provide(cursor, settings, passwords, service, names)


def create_anew(files: layout.Layout, settings: layout.Settings, passwords: Mapping[str, str],
                service: str) -> None:
    """Make the one database of a service and its user; what an earlier one left is removed."""
    with _connect(files) as connection, connection.cursor() as cursor:
        _drop(cursor, service, (service,))
        _provide(cursor, settings, passwords, service, (service,))


def _drop(cursor: Any, service: str, names: Iterable[str]) -> None:
    """Remove a service's databases, and end their sessions."""
    # The program that makes the tables may have outlived its parent.
    cursor.execute('SELECT id FROM information_schema.processlist WHERE user = %s', (service,))
    for (session,) in cursor.fetchall():
        cursor.execute('KILL %s', (session,))
    for name in names:
        cursor.execute(f'DROP DATABASE IF EXISTS `{name}`')


def _provide(cursor: Any, settings: layout.Settings, passwords: Mapping[str, str],
             service: str, names: Iterable[str]) -> None:
    """Make a service's user and its empty databases, unless they are there."""
    user = (service, settings.host)
    cursor.execute('CREATE USER IF NOT EXISTS %s@%s IDENTIFIED BY %s',
                   (*user, passwords[f'mariadb-{service}']))
    for name in names:
        cursor.execute(f'CREATE DATABASE IF NOT EXISTS `{name}` CHARACTER SET utf8mb4')
        cursor.execute(f'GRANT ALL ON `{name}`.* TO %s@%s', user)


def rows(files: layout.Layout, name: str, statement: str, *values: object) -> list[Any]:
    """Run a statement on a service's database, and return its rows.

    It is for what the service's API does not show, or not soon enough.

    :param name: of the database
    :raises pymysql.Error: the server does not answer, or refuses
    """
    with _connect(files, name) as connection, connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def _connect(files: layout.Layout, name: str | None = None) -> Any:
    return pymysql.connect(unix_socket=str(files.database_socket), user=getpass.getuser(),
                           database=name, connect_timeout=5, read_timeout=30, autocommit=True)
