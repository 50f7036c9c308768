# SPDX-License-Identifier: Apache-2.0
"""The programs of a compute host's services."""

import dataclasses
import pathlib

from cloud import processes
from cloud.hosts import layout as hosts_layout
from cloud.hosts import taps
from cloud.openstack import layout
from cloud.openstack import neutron
from cloud.openstack import ovn

OVS_DATABASE = 'ovsdb-server'
OVS = 'ovs-vswitchd'
LIBVIRT = 'libvirtd'
AGENT = 'ovs-agent'
CONTROLLER = 'ovn-controller'
ROUTERS = 'l3-agent'
COMPUTE = 'nova-compute'
SENTINEL = 'sentinel'
TAPS = 'taps'
# Those that read `nova.conf`.
CONFIGURED = (COMPUTE, SENTINEL)

DATABASE_FILE = 'conf.db'
# Inside the host.
DATABASE_SOCKET = pathlib.Path('/run/openvswitch/db.sock')
LIBVIRT_SOCKET = pathlib.Path('/run/libvirt/libvirt-sock')

# The sentinel has no other capabilities where systemd starts it.
_RESTRICTED = ('setpriv', '--bounding-set=-all,+kill,+net_admin',
               '--inh-caps=-all,+kill,+net_admin', '--')
_PATH = '/usr/sbin:/usr/bin:/sbin:/bin'
# Seconds from TERM to KILL: some services end slowly without a need.
_STOP = 8


def programs(files: hosts_layout.Layout) -> dict[str, processes.Program]:
    """Every service, in the order in which they start.

    A service that dies is not restarted, because a test that kills a service checks what follows.
    The switch is, as a packaged one is by its monitor: ovs-vswitchd 3.1 (Debian 12) aborts now and
    then in its userspace datapath (``conn_update_state`` in ``lib/conntrack.c``).
    """
    services = {
        OVS_DATABASE: _program(
            'ovsdb-server', f'/etc/openvswitch/{DATABASE_FILE}', '--no-chdir', '--pidfile',
            f'--remote=punix:{DATABASE_SOCKET}', *ovn.LOG),
        OVS: dataclasses.replace(
            _program('ovs-vswitchd', f'unix:{DATABASE_SOCKET}', '--no-chdir', '--pidfile',
                     *ovn.LOG), restart=True),
        LIBVIRT: _program('libvirtd', '--listen'),
        **_agent(files),
        TAPS: _program(str(layout.BIN / 'python'), str(pathlib.Path(taps.__file__)),
                       str(files.state / 'nova' / 'specreds' / 'sentinel-taps.json'),
                       *(() if files.settings.ovn else (AGENT,))),
        COMPUTE: _program(str(layout.BIN / 'nova-compute'), '--config-file',
                          str(files.nova_conf)),
    }
    sentinel = layout.BIN / 'specreds-sentinel'
    if sentinel.exists() and not files.settings.plain:
        services[SENTINEL] = _program(*_RESTRICTED, str(sentinel), '--config-file',
                                      str(files.nova_conf))
    return services


def agent(settings: layout.Settings) -> str:
    """Return the name of the service that wires the ports of servers."""
    return CONTROLLER if settings.ovn else AGENT


def _agent(files: hosts_layout.Layout) -> dict[str, processes.Program]:
    if not files.settings.ovn:
        names = {AGENT: neutron.AGENTS[0], **({ROUTERS: neutron.ROUTERS}
                                              if files.settings.dvr else {})}
        # The agent of routers starts programs of Neutron, such as the one that watches keepalived.
        return {name: _program(str(layout.BIN / program), '--config-file',
                               str(files.neutron_conf), PATH=f'{layout.BIN}:{_PATH}')
                for name, program in names.items()}
    # OVN_RUNDIR is where ovn-controller creates its socket; no option names another place.
    return {CONTROLLER: _program('ovn-controller', f'unix:{DATABASE_SOCKET}', '--no-chdir',
                                 '--pidfile', *ovn.LOG, OVN_RUNDIR=str(DATABASE_SOCKET.parent))}


def _program(*argv: str, **environment: str) -> processes.Program:
    return processes.Program(argv, environment, stop_seconds=_STOP, restart=False)
