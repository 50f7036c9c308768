# SPDX-License-Identifier: Apache-2.0
"""Cinder's configuration, its tables, its volume types, and what it says of its services."""

from collections.abc import Mapping, Sequence
import os
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import exceptions as keystone_exceptions
from keystoneauth1 import session as keystone_session

from cloud import commands
from cloud.openstack import accounts
from cloud.openstack import broker
from cloud.openstack import database
from cloud.openstack import files as private
from cloud.openstack import layout
from cloud.openstack import nova
from cloud.openstack import reported
from cloud.openstack import services
from specreds_nova import deployment

# What the services are called in Cinder's list of hosts, and several that share a back end.
HOST = 'controller'
_CLUSTER = 'controllers'

# Seconds in which the API answers, unless what it asks in turn has been lost.
_TIMEOUT = 60.0


def conf(files: layout.Layout, settings: layout.Settings, passwords: Mapping[str, str],
         backends: Sequence[layout.Backend]) -> private.Conf:
    """Return the contents of `cinder.conf`."""
    state = files.state / 'cinder'
    core: private.Conf = {
        'DEFAULT': {
            'transport_url': broker.url(settings, passwords),
            'my_ip': settings.host,
            'host': HOST,
            'auth_strategy': 'keystone',
            'state_path': state,
            'api_paste_config': layout.SHARE / 'cinder' / 'api-paste.ini',
            'resource_query_filters_file': layout.SHARE / 'cinder' / 'resource_filters.json',
            'rootwrap_config': layout.SHARE / 'cinder' / 'rootwrap.conf',
            'enabled_backends': ','.join(backend.name for backend in backends),
            'default_volume_type': backends[0].name,
            # A service that ended is seen to be down, and one that started to be up, soon.
            'service_down_time': 20,
            'report_interval': 5,
            'periodic_fuzzy_delay': 0,
            'graceful_shutdown_timeout': 5,
            'rpc_response_timeout': 60,
            'enable_force_upload': 'true',
            'backup_driver': 'cinder.backup.drivers.posix.PosixBackupDriver',
            'backup_posix_path': files.backups,
            # The driver has so much of a volume in memory.
            'backup_file_size': 32 << 20,
            'quota_volumes': 200,
            'quota_snapshots': 200,
            'quota_gigabytes': 100000,
            'per_volume_size_limit': -1,
            'debug': 'false',
        },
        'database': {'connection': database.url(settings, 'cinder', passwords)},
        'oslo_concurrency': {'lock_path': state / 'lock'},
        'os_brick': {'lock_path': state / 'lock'},
        'oslo_messaging_notifications': {'driver': 'messagingv2', 'topics': 'notifications'},
        'coordination': {'backend_url': f'file://{state}/coordination'},
        # Encrypted volumes without another service.
        'key_manager': {'backend': 'cinder.keymgr.conf_key_mgr.ConfKeyManager',
                        'fixed_key': passwords['cinder-key']},
    }
    return private.merged(core, accounts.sections(settings, passwords, 'cinder',
                                                  ('nova',) if settings.hosts else ()),
                          _privsep(files), {} if settings.plain else deployment.cinder(),
                          _server_disks(settings, backends[0]),
                          {backend.name: _backend(settings, backend) for backend in backends})


def _server_disks(settings: layout.Settings, backend: layout.Backend) -> private.Conf:
    """Return the options for disks that Nova keeps in RBD."""
    if settings.plain or settings.disks == layout.FILES:
        return {}
    return {'specreds': {'server_disks_backend': pool(backend).partition('#')[0],
                         'server_disks_pool': nova.POOL}}


def process_confs(backend: layout.Backend) -> dict[str, private.Conf]:
    """Return the configuration of each cinder-volume, which serves one back end.

    :return: by instance of the back end
    """
    shared = {'cluster': _CLUSTER} if backend.services > 1 else {}
    return {instance: {'DEFAULT': {'enabled_backends': backend.name, 'host': host, **shared}}
            for instance, host in _hosts(backend).items()}


def _hosts(backend: layout.Backend) -> dict[str, str]:
    """Return the `host` option of each instance of a back end."""
    return {instance: f'{HOST}{number if number > 1 else ""}'
            for number, instance in enumerate(backend.instances, start=1)}


def pool(backend: layout.Backend) -> str:
    """Return the scheduler's name of a back end's pool."""
    owner = _CLUSTER if backend.services > 1 else HOST
    return f'{owner}@{backend.name}#{backend.name}'


def _backend(settings: layout.Settings, backend: layout.Backend) -> dict[str, private.Value]:
    driver = (deployment.PLAIN_VOLUME_DRIVER if settings.plain
              else deployment.VOLUME_DRIVER)
    return {
        'volume_driver': driver,
        'volume_backend_name': backend.name,
        'rbd_pool': backend.pool,
        'rbd_user': backend.user,
        'rbd_ceph_conf': backend.conf,
        'rbd_secret_uuid': backend.secret(settings),
        'rbd_flatten_volume_from_snapshot': 'false',
        'rbd_exclusive_cinder_pool': 'true',
        'report_discard_supported': 'true',
        # Volumes are sparse, and much larger in sum than this machine's disk.
        'max_over_subscription_ratio': 1000,
    }


def _privsep(files: layout.Layout) -> private.Conf:
    """Root needs no sudo, which may not be installed."""
    if os.getuid() != 0:
        return {}
    helper = f'{layout.BIN / "privsep-helper"} --config-file {files.cinder_conf}'
    return {section: {'helper_command': helper}
            for section in ('cinder_sys_admin', 'privsep_osbrick')}


def prepare(files: layout.Layout) -> None:
    """Make or update the tables.

    :raises CloudError: `cinder-manage` failed
    """
    for directory in ('lock', 'coordination'):
        (files.state / 'cinder' / directory).mkdir(parents=True, exist_ok=True)
    commands.run([str(layout.BIN / 'cinder-manage'), '--config-file', str(files.cinder_conf),
                  'db', 'sync'], timeout=180)


def workers(backends: Sequence[layout.Backend]) -> list[reported.Worker]:
    """Return the services that get a request to create a volume through a queue."""
    return [reported.Worker(services.CINDER_SCHEDULER, 'cinder-scheduler', 'cinder-scheduler',
                            HOST, 'Cinder'),
            reported.Worker(services.CINDER_BACKUP, f'cinder-backup.{HOST}', 'cinder-backup',
                            HOST, 'Cinder'),
            *(reported.Worker(services.cinder_volume(instance),
                              f'cinder-volume.{host}@{backend.name}', 'cinder-volume',
                              f'{host}@{backend.name}', 'Cinder')
              for backend in backends for instance, host in _hosts(backend).items())]


class Api:
    """The requests to Cinder's API that are needed to set up and to watch a cloud.

    :param session: the administrator's
    """

    def __init__(self, session: keystone_session.Session) -> None:
        self._api = adapter.Adapter(session, service_type='block-storage', interface='public',
                                    default_microversion='3.70')

    def make_types(self, backends: Sequence[layout.Backend]) -> None:
        """Make a volume type for each back end that has none."""
        present = {item['name'] for item in self._get('/types', 'volume_types')}
        for backend in backends:
            if backend.name not in present:
                self._api.post('/types', json={'volume_type': {
                    'name': backend.name,
                    'extra_specs': {'volume_backend_name': backend.name}}})

    def services(self) -> list[reported.Service]:
        """Return the services that have ever started."""
        return [reported.Service(item['binary'], item['host'], item['state'] == 'up',
                                 item['status'] == 'enabled')
                for item in self._get('/os-services', 'services')]

    def pools(self) -> list[str]:
        """Return the pools (host@backend#pool) that the scheduler knows."""
        return [item['name'] for item in self._get('/scheduler-stats/get_pools', 'pools')]

    def superpositions(self) -> list[dict[str, Any]]:
        """Return the superpositions of all projects, none without the plug-in."""
        try:
            return self._get('/os-superpositions?all_tenants=1', 'superpositions',
                             {'OpenStack-API-Version': 'superposition 1.0'})
        except keystone_exceptions.NotFound:
            return []

    def _get(self, path: str, key: str,
             headers: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self._api.get(path, timeout=_TIMEOUT,
                                                    headers=headers).json()[key]
        return items
