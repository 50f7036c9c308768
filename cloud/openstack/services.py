# SPDX-License-Identifier: Apache-2.0
"""How the cloud's services are run."""

from collections.abc import Sequence
import dataclasses
import os
import pathlib

from cloud import processes
from cloud.openstack import broker
from cloud.openstack import database
from cloud.openstack import layout
from cloud.openstack import ovn

DATABASE = 'mariadb'
BROKER = 'rabbitmq'
PORT_MAPPER = 'epmd'
KEYSTONE = 'keystone'
CINDER_API = 'cinder-api'
CINDER_SCHEDULER = 'cinder-scheduler'
CINDER_BACKUP = 'cinder-backup'
PLACEMENT = 'placement'
NOVA_API = 'nova-api'
NOVA_SCHEDULER = 'nova-scheduler'
NOVA_CONDUCTOR = 'nova-conductor'
SECOND_CONDUCTOR = f'nova-conductor-{layout.SECOND_CELL}'
GLANCE = 'glance'
NEUTRON_API = 'neutron-api'
NEUTRON_RPC = 'neutron-rpc-server'
NEUTRON_PERIODIC = 'neutron-periodic-workers'
NEUTRON_OVN = 'neutron-ovn-maintenance-worker'
ENGINE_API = 'specreds-api'

# Seconds from TERM to KILL: some services take their time, and nothing here needs it.
_STOP = 8
# Bytes that services send Glance in one chunk at most: Cinder's driver of RBD reads 4 MiB at once.
_CHUNK = 16 << 20


def nova(settings: layout.Settings) -> tuple[str, ...]:
    """Return the names of Nova's services."""
    return (NOVA_API, NOVA_SCHEDULER, NOVA_CONDUCTOR,
            *((SECOND_CONDUCTOR,) if settings.cells > 1 else ()))


def neutron(settings: layout.Settings) -> tuple[str, ...]:
    """Return the names of Neutron's services."""
    return (NEUTRON_API, NEUTRON_RPC, NEUTRON_PERIODIC, *((NEUTRON_OVN,) if settings.ovn else ()))


def cinder_volume(instance: str) -> str:
    """The name of a volume service, from the name of one of a back end's instances."""
    return f'cinder-volume-{instance}'


def engine(number: int) -> str:
    """The name of an engine."""
    return f'specreds-engine-{number}'


def engines(settings: layout.Settings) -> list[str]:
    """The names of the engines, and of their API; none where nobody recovers servers."""
    names = [engine(number) for number in settings.engine_numbers]
    return [ENGINE_API, *names] if names else []


def api_ports(settings: layout.Settings) -> dict[str, int]:
    """The ports of the APIs that there are."""
    block_storage = {KEYSTONE: settings.keystone_port, CINDER_API: settings.cinder_port}
    compute = {PLACEMENT: settings.placement_port, NOVA_API: settings.nova_port,
               GLANCE: settings.glance_port, NEUTRON_API: settings.neutron_port}
    engine_api = {ENGINE_API: settings.engine_port}
    return (block_storage | (compute if settings.hosts else {})
            | (engine_api if settings.engine_numbers else {}))


def programs(files: layout.Layout, settings: layout.Settings,
             backends: Sequence[layout.Backend]) -> dict[str, processes.Program]:
    """Every service, in the order in which they start."""
    volumes = {cinder_volume(instance): _with_keyrings(files, service(
        'cinder-volume', files.cinder_conf, files.instance_conf(instance)), [backend])
               for backend in backends for instance in backend.instances}
    return {
        DATABASE: database.program(files),
        **broker.programs(files, settings),
        **(ovn.programs(files, settings) if settings.hosts and settings.ovn else {}),
        KEYSTONE: wsgi('keystone.wsgi.api', settings, settings.keystone_port, [],
                       {'OS_KEYSTONE_CONFIG_DIR': str(files.keystone_conf.parent)}),
        CINDER_API: wsgi('cinder.wsgi.api', settings, settings.cinder_port,
                         ['--config-file', str(files.cinder_conf)], {}),
        CINDER_SCHEDULER: service('cinder-scheduler', files.cinder_conf),
        CINDER_BACKUP: _with_keyrings(files, service('cinder-backup', files.cinder_conf),
                                      backends),
        **volumes,
        **(_compute(files, settings) if settings.hosts else {}),
        **(_engines(files, settings) if settings.engine_numbers else {}),
    }


def _compute(files: layout.Layout,
             settings: layout.Settings) -> dict[str, processes.Program]:
    """What a cloud with compute hosts has beside block storage."""
    paste = layout.SHARE / 'nova' / 'api-paste.ini'
    return {
        PLACEMENT: wsgi('placement.wsgi.api', settings, settings.placement_port, [],
                        {'OS_PLACEMENT_CONFIG_DIR': str(files.placement_conf.parent)}),
        GLANCE: wsgi('glance.wsgi.api', settings, settings.glance_port, [],
                     {'OS_GLANCE_CONFIG_DIR': str(files.glance_conf.parent)}),
        NOVA_CONDUCTOR: service('nova-conductor', files.nova_conf),
        **({SECOND_CONDUCTOR: service('nova-conductor', files.nova_conf, files.second_cell_conf)}
           if settings.cells > 1 else {}),
        NOVA_SCHEDULER: service('nova-scheduler', files.nova_conf),
        NOVA_API: wsgi('nova.wsgi.osapi_compute', settings, settings.nova_port, [],
                       # The first of them is taken for the pipeline.
                       {'OS_NOVA_CONFIG_FILES': f'{paste};{files.nova_conf}'}),
        NEUTRON_API: wsgi('neutron.wsgi.api', settings, settings.neutron_port,
                          ['--config-file', str(files.neutron_conf)], {}),
        NEUTRON_RPC: service('neutron-rpc-server', files.neutron_conf),
        NEUTRON_PERIODIC: service('neutron-periodic-workers', files.neutron_conf),
        **({NEUTRON_OVN: service('neutron-ovn-maintenance-worker', files.neutron_conf)}
           if settings.ovn else {}),
    }


def _engines(files: layout.Layout,
             settings: layout.Settings) -> dict[str, processes.Program]:
    """What recovers servers, and its API."""
    return {
        ENGINE_API: wsgi('specreds_nova.engine.api.wsgi', settings, settings.engine_port,
                         ['--config-file', str(files.engine_conf)], {}),
        **{engine(number): service('specreds-engine', files.engine_conf,
                                   files.one_engine_conf(number))
           for number in settings.engine_numbers},
    }


def service(program: str, *confs: pathlib.Path) -> processes.Program:
    """Return a program of the virtual environment that reads configuration files."""
    argv = [str(layout.BIN / program)]
    for conf in confs:
        argv += ['--config-file', str(conf)]
    return processes.Program(argv, stop_seconds=_STOP)


def _with_keyrings(files: layout.Layout, program: processes.Program,
                   backends: Sequence[layout.Backend]) -> processes.Program:
    """Return a program that finds the keyrings of the cloud where os-brick looks for them.

    Without root, or without that directory, nothing is uploaded or backed up.

    :param backends: those that it uses; what is elsewhere may have its configuration there
    """
    own = any(pathlib.Path(backend.conf).is_relative_to(files.ceph) for backend in backends)
    if not own or os.getuid() != 0:
        return program
    return dataclasses.replace(program, argv=[
        'unshare', '--mount', 'sh', '-c', 'mount --bind "$0" /etc/ceph; exec "$@"',
        str(files.keyrings), *program.argv])


def wsgi(module: str, settings: layout.Settings, port: int, arguments: list[str],
         environment: dict[str, str]) -> processes.Program:
    """A WSGI application under uWSGI, with one process: the machine may have two cores.

    :param arguments: what the application finds in `sys.argv`
    """
    return processes.Program(
        [str(layout.BIN / 'uwsgi'), '--http-socket', f'{settings.host}:{port}',
         '--module', module, '--pyargv', ' '.join(arguments), '--master', '--need-app',
         '--lazy-apps', '--processes', '1', '--threads', '8', '--enable-threads',
         '--buffer-size', '65535', '--add-header', 'Connection: close', '--die-on-term',
         '--chunked-input-limit', str(_CHUNK),
         '--hook-master-start', 'unix_signal:15 gracefully_kill_them_all',
         # supervisord, who has the other end, would be busy with nothing else if it were closed.
         '--honour-stdin'],
        environment, stop_seconds=_STOP)
