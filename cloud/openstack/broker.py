# SPDX-License-Identifier: Apache-2.0
"""A RabbitMQ of the cloud's own, and the Erlang port mapper that it needs."""

import base64
from collections.abc import Iterable, Mapping
import hashlib
import json
import secrets

import amqp

from cloud import processes
from cloud.openstack import answers
from cloud.openstack import files as private
from cloud.openstack import layout

_USER = 'openstack'
_VHOSTS = ('/', layout.SECOND_CELL)
# The package's /usr/sbin/rabbitmq-server changes the user first; this one does not.
_SERVER = '/usr/lib/rabbitmq/bin/rabbitmq-server'
_TIMEOUT = 90.0
_MAX_NOTIFICATIONS = 2000

_CONF = """\
listeners.tcp.1 = {host}:{port}
load_definitions = {definitions}
vm_memory_high_watermark.absolute = 512MB
disk_free_limit.absolute = 100MB
log.console = true
log.console.level = info
log.file = false
"""


def url(settings: layout.Settings, passwords: Mapping[str, str], vhost: str = '') -> str:
    """oslo.messaging's URL of the broker; it has a password in it.

    :param vhost: virtual host, by default the one of all services outside of the second cell
    """
    return (f'rabbit://{_USER}:{passwords["rabbitmq"]}@{settings.host}:{settings.broker_port}/'
            f'{vhost}')


def prepare(files: layout.Layout, settings: layout.Settings,
            passwords: Mapping[str, str]) -> None:
    """Write the configuration and the only user; RabbitMQ's default user is not made."""
    files.broker.mkdir(exist_ok=True)
    private.write(files.broker_conf, _CONF.format(
        host=settings.host, port=settings.broker_port, definitions=files.broker_definitions))
    # The hash is salted and differs each time: keep the first one.
    if not files.broker_definitions.exists():
        private.write(files.broker_definitions,
                      json.dumps(_definitions(passwords['rabbitmq']), indent=1))


def _definitions(password: str) -> dict[str, object]:
    salt = secrets.token_bytes(4)
    digest = hashlib.sha256(salt + password.encode()).digest()
    return {
        'users': [{'name': _USER, 'tags': '',
                   'password_hash': base64.b64encode(salt + digest).decode(),
                   'hashing_algorithm': 'rabbit_password_hashing_sha256'}],
        'vhosts': [{'name': vhost} for vhost in _VHOSTS],
        'permissions': [{'user': _USER, 'vhost': vhost, 'configure': '.*', 'write': '.*',
                         'read': '.*'} for vhost in _VHOSTS],
        # A queue may have no consumer, and memory is limited.
        'policies': [{'vhost': vhost, 'name': 'notifications', 'apply-to': 'queues',
                      'priority': 0, 'pattern': r'^(versioned_)?notifications\.',
                      'definition': {'max-length': _MAX_NOTIFICATIONS}} for vhost in _VHOSTS],
    }


def programs(files: layout.Layout, settings: layout.Settings) -> dict[str, processes.Program]:
    """Return the programs of the port mapper and the server."""
    erlang = {'HOME': str(files.broker), 'ERL_EPMD_ADDRESS': layout.LOOPBACK,
              'ERL_EPMD_PORT': str(settings.epmd_port)}
    server = erlang | {
        # The Erlang machine takes the place of the shell script, so that it gets the signals.
        'RUNNING_UNDER_SYSTEMD': 'true',
        'RABBITMQ_NODENAME': f'specreds{settings.port}@localhost',
        'RABBITMQ_MNESIA_BASE': str(files.broker / 'mnesia'),
        'RABBITMQ_LOG': '-color',
        'RABBITMQ_LOG_BASE': str(files.log),
        'RABBITMQ_CONFIG_FILE': str(files.broker_conf),
        'RABBITMQ_ENABLED_PLUGINS_FILE': str(files.broker / 'enabled_plugins'),
        'RABBITMQ_CONF_ENV_FILE': '/dev/null',
        'RABBITMQ_PID_FILE': str(files.run / 'rabbitmq.pid'),
        'RABBITMQ_DIST_PORT': str(settings.erlang_port),
        'RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS': '-kernel inet_dist_use_interface {127,0,0,1}',
    }
    return {'epmd': processes.Program(['epmd'], erlang, stop_seconds=5),
            'rabbitmq': processes.Program([_SERVER], server, stop_seconds=15)}


def ping(settings: layout.Settings, passwords: Mapping[str, str]) -> None:
    """:raises OSError, amqp.AMQPError: the server does not answer, or does not know the user"""
    with _connect(settings, passwords):
        pass


def idle(settings: layout.Settings, passwords: Mapping[str, str],
         queues: Iterable[str]) -> list[str]:
    """Return the queues without a consumer.

    :raises OSError, amqp.AMQPError: the server does not answer
    """
    with _connect(settings, passwords) as connection:
        return [queue for queue in queues if not _consumers(connection, queue)]


def _consumers(connection: amqp.Connection, queue: str) -> int:
    # A channel ends with its first error.
    with connection.channel() as channel:
        try:
            return int(channel.queue_declare(queue, passive=True).consumer_count)
        except amqp.NotFound:
            return 0


def _connect(settings: layout.Settings, passwords: Mapping[str, str]) -> amqp.Connection:
    return amqp.Connection(f'{settings.host}:{settings.broker_port}', userid=_USER,
                           password=passwords['rabbitmq'], connect_timeout=5)


def wait(settings: layout.Settings, passwords: Mapping[str, str], log: object) -> None:
    """Wait until the server lets the user in.

    :param log: the log that the error names
    :raises CloudError: it did not in time
    """
    answers.wait('RabbitMQ', lambda: ping(settings, passwords), (OSError, amqp.AMQPError), log,
                 _TIMEOUT)
