# SPDX-License-Identifier: Apache-2.0
"""Configuration and tables of the engines and of their API."""

from collections.abc import Collection, Mapping

import requests

from cloud import commands
from cloud.openstack import accounts
from cloud.openstack import broker
from cloud.openstack import credentials
from cloud.openstack import database
from cloud.openstack import files as private
from cloud.openstack import layout
from cloud.openstack import services
from specreds_nova import deployment

_TIMEOUT = 5.0


def conf(files: layout.Layout, settings: layout.Settings,
         passwords: Mapping[str, str]) -> private.Conf:
    """Return the contents of `specreds-engine.conf`, which all engines and their API read."""
    state = files.state / 'specreds'
    return private.merged({
        'DEFAULT': {'transport_url': broker.url(settings, passwords), 'debug': 'false'},
        'database': {'connection': database.url(settings, accounts.ENGINE, passwords)},
        'keystone_authtoken': accounts.sections(
            settings, passwords, accounts.ENGINE)['keystone_authtoken'],
        'service_auth': accounts.account(settings, passwords, accounts.ENGINE),
        # Hosts are made to fail one time after the other, which says nothing about their links.
        'engine': {'flap_count': 0, 'voice_keys': files.voice_keys},
    }, deployment.engine(str(state / 'lock')))


def one_conf(settings: layout.Settings, number: int) -> private.Conf:
    """Return the configuration that one engine reads in addition.

    :param number: of the engine
    """
    port = settings.metrics_port(number)
    return {'engine': {'name': services.engine(number), 'metrics_host': settings.host,
                       'metrics_port': port, 'voice_address': f'{settings.host}:{port}'}}


def write(files: layout.Layout, settings: layout.Settings,
          passwords: Mapping[str, str]) -> list[str]:
    """Write the configurations.

    :return: the services of which it has changed
    """
    private.write(files.voice_keys, f'{passwords[credentials.VOICES]}\n')
    shared = private.write(files.engine_conf, private.ini(conf(files, settings, passwords)))
    changed = services.engines(settings) if shared else []
    for number in settings.engine_numbers:
        if private.write(files.one_engine_conf(number),
                         private.ini(one_conf(settings, number))) and not shared:
            changed.append(services.engine(number))
    return changed


def prepare(files: layout.Layout) -> None:
    """Make or update the tables, and let the engines act on hosts that fail.

    :raises CloudError: `specreds-engine-manage` failed
    """
    (files.state / 'specreds' / 'lock').mkdir(parents=True, exist_ok=True)
    for words in (['db', 'sync'], ['mode', 'act', '--reason', 'a test cloud']):
        commands.run([str(layout.BIN / 'specreds-engine-manage'), '--config-file',
                      str(files.engine_conf), *words], timeout=180)


def ping(settings: layout.Settings, number: int) -> str:
    """Ask an engine for its metrics.

    :param number: of the engine
    :return: where they are
    :raises OSError, CloudError: it does not answer
    """
    url = settings.url(settings.metrics_port(number), '/metrics')
    answer = requests.get(url, timeout=_TIMEOUT)
    if answer.status_code != 200:
        raise commands.CloudError(f'HTTP {answer.status_code} from {url}')
    return url


def missing(settings: layout.Settings, stopped: Collection[str] = ()) -> str:
    """Return the engines that do not answer.

    :param stopped: names of services that need not answer
    """
    for number in settings.engine_numbers:
        if services.engine(number) in stopped:
            continue
        try:
            ping(settings, number)
        except (OSError, commands.CloudError) as exc:
            return f'{services.engine(number)} does not answer ({exc})'
    return ''
