# SPDX-License-Identifier: Apache-2.0
"""An etcd of the cloud's own, through which the engines share their work."""

import requests

from cloud import commands
from cloud import processes
from cloud.openstack import answers
from cloud.openstack import layout

_TIMEOUT = 60.0
_ANSWER = 5.0
# Hours for which etcd keeps what has been overwritten.
_HISTORY = 1


def program(files: layout.Layout, settings: layout.Settings) -> processes.Program:
    """Return the program of the server: one member, on the network of the cloud's services."""
    clients = settings.url(settings.etcd_port)
    peers = f'http://{layout.LOOPBACK}:{settings.etcd_peer_port}'
    return processes.Program(
        ['/usr/bin/etcd', '--name', 'controller', '--data-dir', str(files.etcd),
         '--listen-client-urls', clients, '--advertise-client-urls', clients,
         '--listen-peer-urls', peers, '--initial-advertise-peer-urls', peers,
         '--initial-cluster', f'controller={peers}',
         '--auto-compaction-retention', str(_HISTORY),
         '--logger', 'zap', '--log-outputs', 'stderr'], stop_seconds=10)


def ping(settings: layout.Settings) -> None:
    """:raises OSError, CloudError: the server does not answer, or is not well"""
    answer = requests.get(settings.url(settings.etcd_port, '/health'), timeout=_ANSWER)
    if answer.status_code != 200:
        raise commands.CloudError(f'etcd is not well: {answer.text.strip()}')


def wait(settings: layout.Settings, log: object) -> None:
    """Wait until the server answers.

    :param log: the log that the error names
    :raises CloudError: it did not in time
    """
    answers.wait('etcd', lambda: ping(settings), (OSError, commands.CloudError), log, _TIMEOUT)
