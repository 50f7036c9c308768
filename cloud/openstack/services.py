# SPDX-License-Identifier: Apache-2.0
"""How the cloud's services are run."""

from collections.abc import Sequence
import pathlib

from cloud import processes
from cloud.openstack import broker
from cloud.openstack import database
from cloud.openstack import layout

DATABASE = 'mariadb'
BROKER = 'rabbitmq'
PORT_MAPPER = 'epmd'
KEYSTONE = 'keystone'
CINDER_API = 'cinder-api'
CINDER_SCHEDULER = 'cinder-scheduler'

# Seconds from TERM to KILL: some services take their time, and nothing here needs it.
_STOP = 8


def cinder_volume(instance: str) -> str:
    """The name of a volume service, from that of one of a back end's instances."""
    return f'cinder-volume-{instance}'


def programs(files: layout.Layout, settings: layout.Settings,
             backends: Sequence[layout.Backend]) -> dict[str, processes.Program]:
    """Every service, in the order in which they start."""
    volumes = {cinder_volume(instance): _cinder(files, 'cinder-volume',
                                                files.instance_conf(instance))
               for backend in backends for instance in backend.instances}
    return {
        DATABASE: database.program(files),
        **broker.programs(files, settings),
        KEYSTONE: _wsgi('keystone.wsgi.api', settings.keystone_port, [],
                        {'OS_KEYSTONE_CONFIG_DIR': str(files.keystone_conf.parent)}),
        CINDER_API: _wsgi('cinder.wsgi.api', settings.cinder_port,
                          ['--config-file', str(files.cinder_conf)], {}),
        CINDER_SCHEDULER: _cinder(files, 'cinder-scheduler'),
        **volumes,
    }


def _cinder(files: layout.Layout, program: str, *confs: pathlib.Path) -> processes.Program:
    argv = [str(layout.BIN / program)]
    for conf in (files.cinder_conf, *confs):
        argv += ['--config-file', str(conf)]
    return processes.Program(argv, stop_seconds=_STOP)


def _wsgi(module: str, port: int, arguments: list[str],
          environment: dict[str, str]) -> processes.Program:
    """A WSGI application under uWSGI, with one process: the machine may have two cores.

    :param arguments: what the application finds in `sys.argv`
    """
    return processes.Program(
        [str(layout.BIN / 'uwsgi'), '--http-socket', f'{layout.HOST}:{port}',
         '--module', module, '--pyargv', ' '.join(arguments), '--master', '--need-app',
         '--lazy-apps', '--processes', '1', '--threads', '8', '--enable-threads',
         '--buffer-size', '65535', '--add-header', 'Connection: close', '--die-on-term',
         '--hook-master-start', 'unix_signal:15 gracefully_kill_them_all'],
        environment, stop_seconds=_STOP)
