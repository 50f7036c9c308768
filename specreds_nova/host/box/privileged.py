# SPDX-License-Identifier: Apache-2.0
"""Operations of a box that need root. The privileged side checks all arguments; no shell runs."""

import ctypes
import errno
import fcntl
import ipaddress
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from oslo_concurrency import processutils
from oslo_config import cfg
from oslo_privsep import capabilities
from oslo_privsep import priv_context

from specreds_nova.host.box import dhcp
from specreds_nova.host.box import frames
from specreds_nova.host.box import ipv6
from specreds_nova.host.box import plan as box_plan

SECTION = 'specreds_privileged'

context = priv_context.PrivContext(
    'specreds_nova', cfg_section=SECTION, pypath=__name__ + '.context',
    capabilities=[capabilities.CAP_SYS_ADMIN, capabilities.CAP_NET_ADMIN,
                  capabilities.CAP_NET_RAW, capabilities.CAP_NET_BIND_SERVICE,
                  capabilities.CAP_DAC_OVERRIDE, capabilities.CAP_DAC_READ_SEARCH,
                  capabilities.CAP_SYS_PTRACE, capabilities.CAP_CHOWN,
                  capabilities.CAP_SETUID, capabilities.CAP_SETGID, capabilities.CAP_KILL])

# Name of the device inside the namespace.
INSIDE = 'box0'

_NAMESPACES = pathlib.Path('/run/netns')
_RESPONDER = pathlib.Path(__file__).with_name('responder.py')
_PORT_ID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
_BRIDGE = re.compile(r'sb[0-9a-f-]{11}')
_TAP = re.compile(r'tap[0-9a-f-]{11}')

_CLONE_NEWNET = 0x40000000
_SIOCETHTOOL = 0x8946
_ETHTOOL_STXCSUM = 0x17
_EXIT_SECONDS = 3.0
# Time until a program in the background must be working, in seconds.
_START_SECONDS = 10.0
_ETH_P_ALL = 3
# Frames that are read at once.
_AT_ONCE = 1000
# By guest's device: what receives its frames.
_receivers: dict[str, socket.socket] = {}


def prepare() -> None:
    """Start the privileged helper without sudo if this service runs as root."""
    if os.geteuid() == 0:
        helper = pathlib.Path(sys.executable).with_name('privsep-helper')
        files = cfg.CONF.config_file if 'config_file' in cfg.CONF else []
        command = [str(helper) if helper.exists() else 'privsep-helper']
        for file in files or []:
            command += ['--config-file', file]
        cfg.CONF.set_default('helper_command', ' '.join(command), group=SECTION)


@context.entrypoint
def warm_up() -> None:
    """Start the helper, which takes a second that no backup should wait for."""


@context.entrypoint
def send_flows(bridge: str, commands: str) -> None:
    """Change flows and send frames atomically.

    :param commands: input of ``ovs-ofctl bundle``
    :raises processutils.ProcessExecutionError: the switch refused; nothing has changed
    """
    _require(_BRIDGE, bridge)
    _execute('ovs-ofctl', '-O', 'OpenFlow14', 'bundle', bridge, '-', process_input=commands)


@context.entrypoint
def flows(bridge: str) -> list[str]:
    """Return the bridge's flows in the syntax of the switch."""
    _require(_BRIDGE, bridge)
    output = _execute('ovs-ofctl', '-O', 'OpenFlow14', '--no-stats', 'dump-flows', bridge)
    return [line.strip() for line in output.splitlines() if 'actions=' in line]


@context.entrypoint
def start_services(plan_json: str) -> None:
    """Make the port's network namespace anew, with its device and its DHCP server."""
    plan = box_plan.Plan.from_json(plan_json)
    _require(_PORT_ID, plan.port)
    _remove_namespace(plan.port)
    _make_namespace(plan)
    if dhcp.needed(plan):
        _in_namespace(plan.namespace, *dhcp.argv(plan, INSIDE))


@context.entrypoint
def start_responder(port: str, metadata: str, over_ipv6: bool = False) -> None:
    """Serve metadata in the port's namespace; return when the responder accepts connections.

    :param metadata: path of the file that ``metadata.write`` made
    :param over_ipv6: serve over IPv6, too
    """
    _require(_PORT_ID, port)
    _in_namespace(box_plan.namespace_of(port), sys.executable, '-I', str(_RESPONDER), metadata,
                  *([INSIDE] if over_ipv6 else []))


@context.entrypoint
def stop_services(port: str) -> None:
    """End all processes of the port's namespace, and remove it and its device. Idempotent."""
    _require(_PORT_ID, port)
    _remove_namespace(port)


@context.entrypoint
def bring_up(tap: str) -> None:
    """Set a guest's device up. Idempotent."""
    _require(_TAP, tap)
    _execute('ip', 'link', 'set', tap, 'up')


@context.entrypoint
def has_sent(tap: str) -> bool:
    """Return whether a guest has sent a frame of its services since the first call.

    :raises OSError: the guest's device cannot be listened to
    """
    _require(_TAP, tap)
    if tap not in _receivers:
        # Without a protocol it receives nothing before it is bound.
        receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        try:
            receiver.bind((tap, _ETH_P_ALL))
        except OSError:
            receiver.close()
            raise
        _receivers[tap] = receiver
    return _reads_frame(_receivers[tap])


def _reads_frame(receiver: socket.socket) -> bool:
    for _ in range(_AT_ONCE):
        try:
            frame, (_, _, kind, *_) = receiver.recvfrom(frames.LONGEST)
        except BlockingIOError:
            return False
        # What is sent to the guest passes here, too.
        if kind != socket.PACKET_OUTGOING and frames.of_services(frame):
            return True
    return False


@context.entrypoint
def stop_listening(tap: str) -> None:
    """Listen to a guest no longer. Idempotent."""
    _require(_TAP, tap)
    receiver = _receivers.pop(tap, None)
    if receiver is not None:
        receiver.close()


@context.entrypoint
def namespace_runs(port: str) -> list[str]:
    """Return the names of the programs that run in the port's namespace."""
    _require(_PORT_ID, port)
    return [_program(pid) for pid in _processes(box_plan.namespace_of(port))]


@context.entrypoint
def accepts_connection(port: str, address: str, tcp_port: int, timeout: float) -> bool:
    """Return whether the guest accepts a TCP connection from inside its box.

    :param timeout: seconds
    """
    _require(_PORT_ID, port)
    try:
        connection = _socket_in(box_plan.namespace_of(port), ipaddress.ip_address(address).version)
    except FileNotFoundError:
        return False
    with connection:
        connection.settimeout(timeout)
        return connection.connect_ex((address, tcp_port)) == 0


def _require(pattern: re.Pattern[str], name: str) -> None:
    if not pattern.fullmatch(name):
        raise ValueError(f'{name!r} is not a name of a part of a box')


def _execute(*argv: str, process_input: str | None = None) -> str:
    output, _ = processutils.execute(*argv, process_input=process_input)
    return output


def _in_namespace(namespace: str, *argv: str) -> None:
    """Run a program that goes to the background when it works.

    :raises OSError: it failed
    """
    # A pipe for its output would be kept open by the program in the background.
    done = subprocess.run(['ip', 'netns', 'exec', namespace, *argv], check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, timeout=_START_SECONDS)
    if done.returncode:
        raise OSError(errno.EIO, f'{argv[0]} ended with {done.returncode} in network namespace '
                                 f'{namespace}; try: ip netns exec {namespace} {" ".join(argv)}')


def _make_namespace(plan: box_plan.Plan) -> None:
    outside, inside = plan.service, f'sw{plan.service[2:]}'
    _execute('ip', 'netns', 'add', plan.namespace)
    _execute('ip', '-batch', '-', process_input='\n'.join([
        f'link add {outside} type veth peer name {inside}',
        f'link set {outside} addrgenmode none', f'link set {outside} up',
        f'link set {inside} address {plan.service_mac}', '']))
    # A switch in user space does not compute checksums that the kernel leaves to the device.
    _without_checksum_offload(inside)
    _execute('ip', 'link', 'set', inside, 'netns', plan.namespace, 'name', INSIDE)
    if plan.answered_ipv6:
        # A host that has disabled IPv6 may hand that down (net.core.devconf_inherit_init_net).
        # With forwarding the kernel says in its answers that it is a router. A guest gives up the
        # default route to a neighbour that denies it. Nothing is forwarded: the flows pass no
        # such frame.
        _execute('ip', 'netns', 'exec', plan.namespace, 'sysctl', '-q', '-w',
                 f'net.ipv6.conf.{INSIDE}.disable_ipv6=0', f'net.ipv6.conf.{INSIDE}.forwarding=1')
    _execute('ip', '-n', plan.namespace, '-batch', '-',
             process_input='\n'.join([*_addresses(plan), '']))


def _addresses(plan: box_plan.Plan) -> list[str]:
    lines = ['link set lo up', f'link set {INSIDE} addrgenmode none', f'link set {INSIDE} up',
             f'address add {box_plan.METADATA_ADDRESS}/32 dev {INSIDE}']
    for subnet in plan.ipv4:
        server = subnet.server
        usable = server and server not in subnet.addresses
        if usable:
            lines.append(f'address add {server}/{subnet.prefix} dev {INSIDE}')
        source = server if usable else box_plan.METADATA_ADDRESS
        for address in subnet.addresses:
            lines += [f'route replace {address}/32 dev {INSIDE} src {source}',
                      f'neighbour replace {address} lladdr {plan.mac} dev {INSIDE} nud permanent']
    return lines + _addresses_ipv6(plan)


def _addresses_ipv6(plan: box_plan.Plan) -> list[str]:
    networks = [ipaddress.IPv6Network(subnet.cidr) for subnet in plan.answered_ipv6]
    lines = []
    for address in ipv6.answered(plan):
        prefix = next((network.prefixlen for network in networks
                       if ipaddress.IPv6Address(address) in network), 64)
        # A deprecated address is not the source of advertisements.
        metadata = address == box_plan.METADATA_ADDRESS_IPV6
        lines.append(f'address add {address}/{prefix} dev {INSIDE} nodad'
                     f'{" preferred_lft 0" if metadata else ""}')
    for subnet in plan.answered_ipv6:
        source = ipv6.source(plan, subnet)
        for address in subnet.addresses:
            lines += [f'route replace {address}/128 dev {INSIDE} src {source}',
                      f'neighbour replace {address} lladdr {plan.mac} dev {INSIDE} nud permanent']
    return lines


def _without_checksum_offload(device: str) -> None:
    value = ctypes.create_string_buffer(struct.pack('II', _ETHTOOL_STXCSUM, 0))
    request = struct.pack('16sP', device.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        fcntl.ioctl(handle, _SIOCETHTOOL, request)


def _remove_namespace(port: str) -> None:
    namespace = box_plan.namespace_of(port)
    _end_processes(namespace)
    _delete_link(box_plan.service_of(port))
    if (_NAMESPACES / namespace).exists():
        _execute('ip', 'netns', 'delete', namespace)


def _delete_link(name: str) -> None:
    if pathlib.Path('/sys/class/net', name).exists():
        try:
            _execute('ip', 'link', 'delete', name)
        except processutils.ProcessExecutionError:
            # A process that ended may have taken the device along.
            if pathlib.Path('/sys/class/net', name).exists():
                raise


def _end_processes(namespace: str) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + _EXIT_SECONDS
        while processes := _processes(namespace):
            for pid in processes:
                _kill(pid, number)
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)


def _kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _processes(namespace: str) -> list[int]:
    """Return the ids of the processes in a network namespace."""
    try:
        wanted = (_NAMESPACES / namespace).stat()
    except FileNotFoundError:
        return []
    pids = []
    for entry in pathlib.Path('/proc').iterdir():
        if entry.name.isdigit():
            try:
                current = (entry / 'ns' / 'net').stat()
            except OSError:
                continue
            if (current.st_dev, current.st_ino) == (wanted.st_dev, wanted.st_ino):
                pids.append(int(entry.name))
    return pids


def _program(pid: int) -> str:
    try:
        return pathlib.Path(f'/proc/{pid}/comm').read_text().strip()
    except OSError:
        return ''


def _socket_in(namespace: str, version: int) -> socket.socket:
    """Return a TCP socket of a namespace.

    :param version: of the Internet Protocol
    :raises FileNotFoundError: there is no such namespace
    """
    family = socket.AF_INET6 if version == 6 else socket.AF_INET
    with (_NAMESPACES / namespace).open('rb') as handle:
        sockets: list[socket.socket] = []
        failures: list[OSError] = []

        def enter() -> None:
            if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), _CLONE_NEWNET):
                failures.append(OSError(ctypes.get_errno(), f'cannot enter {namespace}'))
            else:
                sockets.append(socket.socket(family, socket.SOCK_STREAM))

        # The thread ends there, so that no thread of this process stays in the other namespace.
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
    if failures:
        raise failures[0]
    return sockets[0]
