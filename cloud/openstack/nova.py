# SPDX-License-Identifier: Apache-2.0
"""Nova's configuration, its tables and cells, its flavours, and what it says of its services."""

from collections.abc import Mapping
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import session as keystone_session

from cloud import commands
from cloud.openstack import accounts
from cloud.openstack import broker
from cloud.openstack import database
from cloud.openstack import files as private
from cloud.openstack import layout
from cloud.openstack import reported
from cloud.openstack import services

# The pool of the disks that it keeps in RBD itself.
POOL = 'vms'
# What the controller's services are called in Nova's list of hosts.
HOST = 'controller'
# Memory in MiB by flavour; each has one virtual CPU and no disk of its own.
FLAVOURS = {'m1.g1': 128, 'm1.g2': 512, 'm1.g3': 768, 'm1.large': 192}

# Seconds in which the API answers, unless what it asks in turn has been lost.
_TIMEOUT = 60.0


def common(settings: layout.Settings, passwords: Mapping[str, str]) -> private.Conf:
    """What the controller and the compute hosts have in common in `nova.conf`."""
    core: private.Conf = {
        'DEFAULT': {
            'transport_url': broker.url(settings, passwords),
            # A service that ended is seen to be down, and one that started to be up, soon.
            'service_down_time': 20,
            'report_interval': 5,
            'periodic_fuzzy_delay': 0,
            'graceful_shutdown_timeout': 5,
            'rpc_response_timeout': 60,
            # Volumes are made from images while the server waits.
            'block_device_allocate_retries': 300,
            'block_device_allocate_retries_interval': 1,
            'cpu_allocation_ratio': 32,
            'ram_allocation_ratio': 1,
            'disk_allocation_ratio': 1000,
            'reserved_host_memory_mb': 0,
            # To another host it takes ssh between them, which have none here.
            'allow_resize_to_same_host': 'true',
            'debug': 'false',
        },
        'api': {'auth_strategy': 'keystone'},
        # The same key as Cinder's.
        'key_manager': {'backend': 'nova.keymgr.conf_key_mgr.ConfKeyManager',
                        'fixed_key': passwords['cinder-key']},
        'vnc': {'enabled': 'false'},
        'notifications': {'notify_on_state_change': 'vm_and_task_state',
                          'notification_format': 'both'},
        'oslo_messaging_notifications': {'driver': 'messagingv2', 'topics': 'notifications'},
    }
    return private.merged(
        core, accounts.sections(settings, passwords, 'nova',
                                ('placement', 'cinder', 'glance', 'neutron')),
        {'cinder': {'os_region_name': layout.REGION}})


def conf(files: layout.Layout, settings: layout.Settings,
         passwords: Mapping[str, str]) -> private.Conf:
    """Everything in the controller's `nova.conf`."""
    state = files.state / 'nova'
    return private.merged(common(settings, passwords), {
        'DEFAULT': {'my_ip': settings.host, 'host': HOST, 'state_path': state},
        'api_database': {'connection': database.url(settings, 'nova', passwords, 'nova_api')},
        'database': {'connection': database.url(settings, 'nova', passwords)},
        'oslo_concurrency': {'lock_path': state / 'lock'},
        'conductor': {'workers': 1},
        'scheduler': {'workers': 1, 'discover_hosts_in_cells_interval': 3},
        'filter_scheduler': {'enabled_filters': 'ComputeFilter,ComputeCapabilitiesFilter,'
                                                'ImagePropertiesFilter,'
                                                'ServerGroupAntiAffinityFilter,'
                                                'ServerGroupAffinityFilter' + (
                                                    ',NUMATopologyFilter'
                                                    if settings.dedicated_cpus else '')},
        'quota': dict.fromkeys(('instances', 'cores', 'ram', 'server_groups',
                                'server_group_members'), -1),
    })


def second_cell(settings: layout.Settings, passwords: Mapping[str, str]) -> private.Conf:
    """What the conductor of the second cell has instead of the controller's `nova.conf`."""
    return {'DEFAULT': {'transport_url': broker.url(settings, passwords, layout.SECOND_CELL)},
            'database': {'connection': database.url(settings, 'nova', passwords,
                                                    layout.SECOND_DATABASE)}}


def prepare(files: layout.Layout) -> None:
    """Make or update the tables, and the cells: `cell0` and the one with the hosts.

    :raises CloudError: `nova-manage` failed
    """
    (files.state / 'nova' / 'lock').mkdir(parents=True, exist_ok=True)
    # Databases and broker of the cells are those in the configuration.
    _manage(files, 'api_db', 'sync')
    _manage(files, 'cell_v2', 'map_cell0')
    if not files.done('nova').exists():
        _manage(files, 'cell_v2', 'create_cell', '--name', 'cell1')
    _manage(files, 'db', 'sync')
    if files.second_cell_conf.exists():
        if not files.done('nova').exists():
            # Without passwords: Nova takes the passwords in its configuration.
            server = '{scheme}://{username}:{password}@{hostname}:{port}/'
            _manage(files, 'cell_v2', 'create_cell', '--name', layout.SECOND_CELL,
                    '--transport-url', f'{server}{layout.SECOND_CELL}',
                    '--database_connection', f'{server}{layout.SECOND_DATABASE}?{{query}}')
        _manage(files, '--config-file', str(files.second_cell_conf), 'db', 'sync')


def _manage(files: layout.Layout, *words: str) -> None:
    commands.run([str(layout.BIN / 'nova-manage'), '--config-file', str(files.nova_conf),
                         *words], timeout=300)


def workers() -> list[reported.Worker]:
    """The controller's services that are asked through a queue."""
    return [reported.Worker(services.NOVA_CONDUCTOR, 'conductor', 'nova-conductor', HOST, 'Nova'),
            reported.Worker(services.NOVA_SCHEDULER, 'scheduler', 'nova-scheduler', HOST, 'Nova')]


class Api:
    """The few requests to Nova's API that it takes to set a cloud up and to watch it.

    :param session: the administrator's
    """

    def __init__(self, session: keystone_session.Session) -> None:
        self._api = adapter.Adapter(session, service_type='compute', interface='public',
                                    default_microversion='2.95')

    def make_flavours(self) -> None:
        """Make those that are missing."""
        present = {item['name'] for item in self._get('/flavors', 'flavors')}
        for name, memory in FLAVOURS.items():
            if name not in present:
                self._api.post('/flavors', json={'flavor': {
                    'name': name, 'id': name, 'ram': memory, 'vcpus': 1, 'disk': 0}})

    def services(self) -> list[reported.Service]:
        """Return the services that have ever started."""
        return [reported.Service(item['binary'], item['host'], item['state'] == 'up',
                                 item['status'] == 'enabled')
                for item in self._get('/os-services', 'services')]

    def hypervisors(self) -> list[str]:
        """The hosts on which the scheduler may put a server."""
        return [item['service']['host']
                for item in self._get('/os-hypervisors/detail', 'hypervisors')
                if item['state'] == 'up']

    def servers(self) -> list[dict[str, Any]]:
        """All servers of all projects."""
        return self._get('/servers/detail?all_tenants=1', 'servers')

    def _get(self, path: str, key: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self._api.get(path, timeout=_TIMEOUT).json()[key]
        return items
