# SPDX-License-Identifier: Apache-2.0
"""What each service of a cloud is doing, and what is wrong with it."""

from collections.abc import Callable, Iterable, Mapping
import dataclasses
import pathlib
import re

import amqp
from keystoneauth1 import exceptions as keystone_exceptions
import pymysql
import requests

from cloud import commands
from cloud import processes
from cloud.openstack import broker
from cloud.openstack import database
from cloud.openstack import engine
from cloud.openstack import layout
from cloud.openstack import reported
from cloud.openstack import services

_FAILURES = (OSError, amqp.AMQPError, pymysql.Error, requests.RequestException,
             keystone_exceptions.ClientException, commands.CloudError)
_TIMEOUT = 5.0
# How much of a log is searched for an error, in bytes, and how much of its line is shown.
_SEARCHED = 128 * 1024
_SHOWN = 160
_ERROR = re.compile(r' (ERROR|CRITICAL) |\[(error|ERROR)\]|\|(ERR|EMER)\||^\w*(Error|Exception)\b')


@dataclasses.dataclass(frozen=True)
class Check:
    """What was found about one service.

    :param words: what it answered, or what is wrong
    :param log: what to read about it
    """

    name: str
    good: bool
    words: str
    log: pathlib.Path


class Probes:
    """Asks every service.

    :param running: what supervisord says
    :param log_of: gives the log of a service
    :param workers: the services without an API
    :param owners: the APIs that they report to, as the administrator sees them, by name
    """

    def __init__(self, files: layout.Layout, settings: layout.Settings,
                 passwords: Mapping[str, str], running: list[processes.Process],
                 log_of: Callable[[str], pathlib.Path], workers: Iterable[reported.Worker],
                 owners: Mapping[str, reported.Api]) -> None:
        self._files = files
        self._settings = settings
        self._passwords = passwords
        self._running = {process.name: process for process in running}
        self._log_of = log_of
        self._workers = {worker.name: worker for worker in workers}
        self._owners = owners
        self._ports = services.api_ports(settings)
        self._engines = {services.engine(number): number for number in settings.engine_numbers}

    def check(self, name: str) -> Check:
        """Ask one service."""
        process = self._running.get(name)
        log = self._log_of(name)
        if process is None or process.state != 'RUNNING':
            state = process.state.lower() if process else 'stopped'
            # What was stopped on purpose has no error of its own.
            words = state if state == 'stopped' else _with_error(state, log)
            return Check(name, False, words, log)
        try:
            words = self._ask(name)
        except _FAILURES as exc:
            reason = str(exc).split('\n')[0][:_SHOWN]
            return Check(name, False, _with_error(f'running, but {reason}', log), log)
        return Check(name, True, words, log)

    def _ask(self, name: str) -> str:
        """Ask a service that runs whether it works.

        :return: what it said
        """
        match name:
            case services.DATABASE:
                database.ping(self._files)
                return f'{self._settings.host}:{self._settings.database_port}'
            case services.BROKER:
                broker.ping(self._settings, self._passwords)
                return f'{self._settings.host}:{self._settings.broker_port}'
            case services.PORT_MAPPER:
                return f'{layout.LOOPBACK}:{self._settings.epmd_port}'
        if name in self._engines:
            return engine.ping(self._settings, self._engines[name])
        if name in self._ports:
            return versions(self._settings.url(self._ports[name], '/'))
        return self._worker(self._workers[name]) if name in self._workers else 'running'

    def _worker(self, worker: reported.Worker) -> str:
        """Ask others about a service that is reached through its queue.

        :return: its host, as it reports it
        :raises CloudError: it does not work, or nobody can tell
        """
        try:
            if broker.idle(self._settings, self._passwords, [worker.queue]):
                raise commands.CloudError('it does not listen to its queue')
        except (OSError, amqp.AMQPError) as exc:
            raise commands.CloudError('RabbitMQ cannot be asked about it') from exc
        if not worker.owner:
            return f'listens to {worker.queue}'
        try:
            known = {(service.binary, service.host): service
                     for service in self._owners[worker.owner].services()}
        except keystone_exceptions.ClientException as exc:
            raise commands.CloudError(f'{worker.owner} cannot be asked about it') from exc
        service = known.get((worker.binary, worker.host))
        if service is None or not service.up:
            raise commands.CloudError(f'it has not reported to {worker.owner}')
        return worker.host if service.enabled else f'{worker.host} (disabled)'


def versions(url: str) -> str:
    """Ask an API which versions it has, which needs no token."""
    answer = requests.get(url, timeout=_TIMEOUT)
    # 300: there may be several versions to choose from.
    if answer.status_code not in (200, 300):
        raise commands.CloudError(f'HTTP {answer.status_code} from {url}')
    return url


def _with_error(words: str, log: pathlib.Path) -> str:
    error = last_error(log)
    return f'{words} ({error})' if error else words


def last_error(log: pathlib.Path) -> str:
    """The last line near the end of a log that tells of an error, or an empty string."""
    try:
        with log.open('rb') as file:
            file.seek(max(0, log.stat().st_size - _SEARCHED))
            lines = file.read().decode(errors='replace').splitlines()
    except FileNotFoundError:
        return ''
    errors = [line for line in lines if _ERROR.search(line)]
    return errors[-1].strip()[:_SHOWN] if errors else ''
