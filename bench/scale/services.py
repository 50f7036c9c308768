# SPDX-License-Identifier: Apache-2.0
"""A database and a broker of a benchmark's own."""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import os
import pathlib
import secrets
import subprocess
import tempfile
import time
from typing import Any

import pymysql
import requests

from cloud import commands
from cloud.openstack import broker as brokers
from cloud.openstack import layout

_TIMEOUT = 60.0
_PAUSE = 0.1


@contextlib.contextmanager
def database() -> Iterator[str]:
    """Run a MariaDB, and return SQLAlchemy's URL of an empty database."""
    with (tempfile.TemporaryDirectory(prefix='specreds-scale-') as directory,
          _database(pathlib.Path(directory)) as url):
        yield url


@contextlib.contextmanager
def _database(place: pathlib.Path) -> Iterator[str]:
    data, where = place / 'mariadb', place / 'mariadb.sock'
    user = ['--user=root'] if os.getuid() == 0 else []
    commands.run(['mariadb-install-db', '--no-defaults', f'--datadir={data}', '--skip-test-db',
                  '--auth-root-authentication-method=normal', *user], timeout=120)
    with running(['/usr/sbin/mariadbd', '--no-defaults', f'--datadir={data}',
                   f'--socket={where}', '--skip-networking', '--max-connections=1024',
                   '--innodb-flush-log-at-trx-commit=2', *user], place / 'mariadb.log'):
        connection = _waited(lambda: pymysql.connect(unix_socket=str(where), user='root'),
                             pymysql.Error)
        with connection, connection.cursor() as cursor:
            cursor.execute('CREATE DATABASE specreds CHARACTER SET utf8mb4')
        yield f'mysql+pymysql://root@localhost/specreds?unix_socket={where}&charset=utf8mb4'


@contextlib.contextmanager
def broker(root: pathlib.Path, port: int) -> Iterator[str]:
    """Run a RabbitMQ, and return oslo.messaging's URL of it.

    :param port: first of the ports of a cloud
    """
    files, settings = layout.Layout(root), layout.Settings(port=port)
    for directory in (files.root, files.etc, files.broker_conf.parent, files.run, files.log):
        directory.mkdir(parents=True, exist_ok=True)
    passwords = {'rabbitmq': secrets.token_hex()}
    brokers.prepare(files, settings, passwords)
    with contextlib.ExitStack() as stack:
        for name, program in brokers.programs(files, settings).items():
            # Where Mnesia dumps its core.
            stack.enter_context(running(program.argv, files.log / f'{name}.out',
                                        os.environ | dict(program.environment), files.run))
        brokers.wait(settings, passwords, files.log / 'rabbitmq.out')
        yield brokers.url(settings, passwords)


@contextlib.contextmanager
def running(argv: Sequence[str], log: pathlib.Path,
            environment: Mapping[str, str] | None = None, directory: pathlib.Path | None = None
            ) -> Iterator['subprocess.Popen[bytes]']:
    """Run a program until the end, and return its process.

    :param log: file for the program's output
    :param directory: where it runs; None for where the caller runs
    """
    with log.open('wb') as output, subprocess.Popen(
            argv, stdout=output, stderr=output, env=environment, cwd=directory) as process:
        try:
            yield process
        finally:
            process.terminate()


def _waited(ask: Any, failures: type[Exception]) -> Any:
    until = time.monotonic() + _TIMEOUT
    while True:
        try:
            return ask()
        except (failures, requests.RequestException) as exc:
            if time.monotonic() > until:
                raise commands.CloudError(f'the service does not answer: {exc}') from exc
        time.sleep(_PAUSE)
