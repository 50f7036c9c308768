# SPDX-License-Identifier: Apache-2.0
"""The programs of a compute host's services."""

import pathlib

from cloud import processes
from cloud.hosts import layout as hosts_layout
from cloud.hosts import taps
from cloud.openstack import layout

OVS_DATABASE = 'ovsdb-server'
OVS = 'ovs-vswitchd'
LIBVIRT = 'libvirtd'
AGENT = 'ovs-agent'
COMPUTE = 'nova-compute'
SENTINEL = 'sentinel'
TAPS = 'taps'

DATABASE_FILE = 'conf.db'
# Inside the host.
DATABASE_SOCKET = pathlib.Path('/run/openvswitch/db.sock')
LIBVIRT_SOCKET = pathlib.Path('/run/libvirt/libvirt-sock')

# Log to the file that supervisord keeps, and nowhere else.
_OVS_LOG = ['-vconsole:info', '-vsyslog:off', '-vfile:off']
# Seconds from TERM to KILL: some services end slowly without a need.
_STOP = 8


def programs(files: hosts_layout.Layout) -> dict[str, processes.Program]:
    """Every service, in the order in which they start.

    None is restarted when it dies: a test that kills a service checks what follows.
    """
    services = {
        OVS_DATABASE: _program(
            'ovsdb-server', f'/etc/openvswitch/{DATABASE_FILE}', '--no-chdir', '--pidfile',
            f'--remote=punix:{DATABASE_SOCKET}', *_OVS_LOG),
        OVS: _program('ovs-vswitchd', f'unix:{DATABASE_SOCKET}', '--no-chdir', '--pidfile',
                      *_OVS_LOG),
        LIBVIRT: _program('libvirtd', '--listen'),
        AGENT: _program(str(layout.BIN / 'neutron-openvswitch-agent'), '--config-file',
                        str(files.neutron_conf)),
        TAPS: _program(str(layout.BIN / 'python'), str(pathlib.Path(taps.__file__))),
        COMPUTE: _program(str(layout.BIN / 'nova-compute'), '--config-file',
                          str(files.nova_conf)),
    }
    sentinel = layout.BIN / 'specreds-sentinel'
    if sentinel.exists() and not files.settings.plain:
        services[SENTINEL] = _program(str(sentinel), '--config-file', str(files.nova_conf))
    return services


def _program(*argv: str) -> processes.Program:
    return processes.Program(argv, stop_seconds=_STOP, restart=False)
