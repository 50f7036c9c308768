# SPDX-License-Identifier: Apache-2.0
"""What each service of a cloud is doing, and what is wrong with it."""

from collections.abc import Callable, Mapping
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
from cloud.openstack import cinder
from cloud.openstack import database
from cloud.openstack import layout
from cloud.openstack import services

_FAILURES = (OSError, amqp.AMQPError, pymysql.Error, requests.RequestException,
             keystone_exceptions.ClientException, commands.CloudError)
_TIMEOUT = 5.0
# How much of a log is searched for an error, in bytes, and how much of its line is shown.
_SEARCHED = 128 * 1024
_SHOWN = 160
_ERROR = re.compile(r' (ERROR|CRITICAL) |\[(error|ERROR)\]|^\w*(Error|Exception)\b')


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
    :param api: Cinder's API as the administrator sees it
    :param queues: of the services that have one
    """

    def __init__(self, files: layout.Layout, settings: layout.Settings,
                 passwords: Mapping[str, str], running: list[processes.Process],
                 log_of: Callable[[str], pathlib.Path], api: cinder.Api,
                 queues: Mapping[str, str]) -> None:
        self._files = files
        self._settings = settings
        self._passwords = passwords
        self._running = {process.name: process for process in running}
        self._log_of = log_of
        self._api = api
        self._queues = queues

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
        except _FAILURES as error:
            reason = str(error).split('\n')[0][:_SHOWN]
            return Check(name, False, _with_error(f'running, but {reason}', log), log)
        return Check(name, True, words, log)

    def _ask(self, name: str) -> str:
        """Ask a service that runs whether it works.

        :return: what it said
        """
        match name:
            case services.DATABASE:
                database.ping(self._files)
                return f'{layout.HOST}:{self._settings.database_port}'
            case services.BROKER:
                broker.ping(self._settings, self._passwords)
                return f'{layout.HOST}:{self._settings.broker_port}'
            case services.KEYSTONE:
                return _versions(self._settings.keystone_port)
            case services.CINDER_API:
                return _versions(self._settings.cinder_port)
            case services.PORT_MAPPER:
                return f'{layout.HOST}:{self._settings.epmd_port}'
            case services.CINDER_SCHEDULER:
                return self._worker(name, 'cinder-scheduler', cinder.HOST)
        return self._worker(name, 'cinder-volume', self._queues[name].partition('.')[2])

    def _worker(self, name: str, binary: str, host: str) -> str:
        """Ask others about a service that is reached through its queue.

        :return: its host, as Cinder calls it
        :raises CloudError: it does not work, or nobody can tell
        """
        try:
            if broker.idle(self._settings, self._passwords, [self._queues[name]]):
                raise commands.CloudError('it does not listen to its queue')
        except (OSError, amqp.AMQPError) as error:
            raise commands.CloudError('RabbitMQ cannot be asked about it') from error
        try:
            known = {(service.binary, service.host): service for service in self._api.services()}
        except keystone_exceptions.ClientException as error:
            raise commands.CloudError('Cinder cannot be asked about it') from error
        service = known.get((binary, host))
        if service is None or not service.up:
            raise commands.CloudError('it has not reported to Cinder')
        return host if service.enabled else f'{host} (disabled)'


def _versions(port: int) -> str:
    """Ask an API which versions it has, which needs no token."""
    url = f'http://{layout.HOST}:{port}/'
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
    found = [line for line in lines if _ERROR.search(line)]
    return found[-1].strip()[:_SHOWN] if found else ''
