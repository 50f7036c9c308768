# SPDX-License-Identifier: Apache-2.0
"""What Tempest is told of a cloud: everything in ``tempest.conf``."""

from collections.abc import Mapping
import pathlib
import shlex
import sys

from keystoneauth1 import adapter

from cloud import cloud as clouds
from cloud.openstack import files as private
from cloud.openstack import layout
from cloud.openstack import neutron

# Seconds that a volume may need until it is there, and a server or an image.
_BUILD_TIMEOUT = 90
_SERVER_TIMEOUT = 180
# And whatever this project's tests wait for, on a machine that has other things to do.
_PATIENCE = 600
# Memory in MiB of the flavours that servers of tests have. They have a disk of one GiB, too: only
# administrators may boot from an image with a flavour that has none.
_FLAVOURS = {'tempest.1': 128, 'tempest.2': 160}
_IMAGE = 'g1'


def block_storage(cloud: clouds.Cloud, directory: pathlib.Path) -> private.Conf:
    """What it is told of a cloud without compute hosts.

    :param directory: for what Tempest writes
    """
    admin = cloud.environment('admin')
    return {
        'DEFAULT': {'log_file': directory / 'tempest.log'},
        'oslo_concurrency': {'lock_path': directory / 'lock'},
        'auth': {
            'admin_username': admin['OS_USERNAME'],
            'admin_password': admin['OS_PASSWORD'],
            'admin_project_name': admin['OS_PROJECT_NAME'],
            'admin_domain_name': 'Default',
            # Each class of tests has projects and users of its own.
            'use_dynamic_credentials': 'true',
            'create_isolated_networks': 'false',
        },
        'identity': {'uri_v3': admin['OS_AUTH_URL'], 'auth_version': 'v3',
                     'region': layout.REGION},
        # Glance and Neutron are not there, but tests that use neither insist on them.
        'service_available': {'cinder': 'true', 'glance': 'true', 'neutron': 'true',
                              'nova': 'false', 'swift': 'false', 'horizon': 'false'},
        'volume': {
            'volume_type': cloud.backends[0].name,
            'backend_names': ','.join(backend.name for backend in cloud.backends),
            'storage_protocol': 'ceph',
            'backup_driver': 'posix',
            'manage_snapshot_ref': 'source-name,snapshot-%s',
            'min_microversion': '3.0',
            'max_microversion': 'latest',
            'build_timeout': _BUILD_TIMEOUT,
        },
        'volume-feature-enabled': {
            'multi_backend': 'true' if len(cloud.backends) > 1 else 'false',
            'manage_volume': 'true', 'manage_snapshot': 'true',
            'backup': 'true',
        },
        # Guests have no ssh, and projects no networks of their own.
        'validation': {'run_validation': 'false', 'connect_method': 'fixed',
                       'network_for_ssh': neutron.NETWORK},
        'enforce_scope': {'cinder': 'true', 'specreds': 'true'},
    }


def hosts(cloud: clouds.Cloud, directory: pathlib.Path,
          furniture: Mapping[str, str]) -> private.Conf:
    """What it is told of a cloud with compute hosts and an engine.

    :param directory: for what Tempest writes
    :param furniture: what :func:`furnish` gave
    """
    def command(*words: str) -> str:
        return shlex.join([sys.executable, '-m', *words])

    def host(action: str) -> str:
        return command('cloud', 'cloud', 'host', action, '--data', str(cloud.files.root), '{host}')

    return private.merged(block_storage(cloud, directory), {
        'service_available': {'nova': 'true', 'specreds': 'true'},
        'compute': {
            'image_ref': furniture[_IMAGE], 'image_ref_alt': furniture[_IMAGE],
            'flavor_ref': furniture['tempest.1'], 'flavor_ref_alt': furniture['tempest.2'],
            'fixed_network_name': neutron.NETWORK,
            'min_compute_nodes': cloud.settings.hosts,
            'max_microversion': 'latest',
            'build_timeout': _SERVER_TIMEOUT,
        },
        'compute-feature-enabled': {
            # It takes ssh between the hosts, which have none.
            'resize': 'false', 'cold_migration': 'false',
            'live_migration': 'false', 'vnc_console': 'false', 'rescue': 'false',
            'console_output': 'true',
        },
        'image': {'build_timeout': _SERVER_TIMEOUT},
        # One network for all projects, and no routers.
        'network': {'shared_physical_network': 'true'},
        'network-feature-enabled': {'floating_ips': 'false'},
        'specreds': {
            'destructive': 'true',
            **{f'host_{action}_command': host(action)
               for action in ('kill', 'boot', 'hang', 'resume')},
            'guest_command': command('cloud.tempest_guest', '--data', str(cloud.files.root),
                                     '{action}', '{address}'),
            'server_ready': 'tcp:80',
            'build_interval': '0.5',
            'build_timeout': _PATIENCE,
            'recovery_timeout': _PATIENCE,
            'region': layout.REGION,
        },
    })


def furnish(cloud: clouds.Cloud) -> dict[str, str]:
    """Make what the tests need in a cloud with compute hosts, unless it is there.

    :return: ids of images and flavours by their names
    """
    session = cloud.session()
    compute = adapter.Adapter(session, service_type='compute', interface='public')
    image = adapter.Adapter(session, service_type='image', interface='public')
    present = {flavour['id'] for flavour in compute.get('/flavors').json()['flavors']}
    for name, memory in _FLAVOURS.items():
        if name not in present:
            compute.post('/flavors', json={'flavor': {
                'name': name, 'id': name, 'ram': memory, 'vcpus': 1, 'disk': 1}})
    [known] = image.get('/v2/images', params={'name': _IMAGE}).json()['images']
    return {_IMAGE: str(known['id']), **{name: name for name in _FLAVOURS}}
