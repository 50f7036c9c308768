# SPDX-License-Identifier: Apache-2.0
"""The container's root: packages, configuration, and stand-ins."""

from collections.abc import Sequence
import os
import pathlib
import shutil

from cloud import commands
from cloud.devstack import layout
from cloud.matrix import jail

# Of a machine that DevStack expects; uuidgen is called by devstack-plugin-ceph's settings.
PACKAGES = (
    'acl', 'curl', 'dbus', 'iptables', 'iputils-ping', 'kmod', 'less', 'locales', 'lsb-release',
    'netbase', 'python3-dev', 'sudo', 'systemd', 'systemd-sysv', 'uuid-runtime', 'wget')
_STAND_INS = pathlib.Path(__file__).with_name('files')
# Programs of which the container has stand-ins: devstack-plugin-ceph runs Ceph from a container
# image, and that cannot be done in this container. With OVN, stack.sh puts /bin first in PATH, so
# that a stand-in in /usr/local/bin would not be found.
_LINKS = {'usr/bin/curl': 'curl', 'usr/sbin/podman': 'podman'}
# The program that a stand-in calls keeps this name when its package is installed again.
_DIVERSION = ['dpkg-divert', '--local', '--rename', '--divert', '/usr/bin/curl.distrib', '--add',
              '/usr/bin/curl']
# What a service has to stop in good order, which systemd asks all at once, before it is killed.
_STOP_SECONDS = 5
_FILES = {
    # libvirt makes no cgroups, device nodes or profiles in a container.
    'etc/libvirt/qemu.conf':
        'security_driver = "none"\ncgroup_controllers = [ ]\nnamespaces = [ ]\n',
    # DevStack restarts the daemon, which does not start without iSCSI in the kernel.
    'etc/systemd/system/iscsid.service.d/no-kernel.conf':
        '[Service]\nType=oneshot\nRemainAfterExit=yes\nPIDFile=\nExecStart=\n'
        'ExecStart=/bin/true\n',
    # OVN makes its bridge, and knows of no other datapath than the kernel's unless it is told.
    'etc/systemd/system/ovsdb-server.service.d/user-space.conf':
        '[Service]\nExecStartPost=/usr/bin/ovs-vsctl --no-wait set Open_vSwitch . '
        'external_ids:ovn-bridge-datapath-type=netdev\n',
    # Open vSwitch's userspace datapath and QEMU need it.
    'etc/tmpfiles.d/specreds-devstack.conf':
        'd /dev/net 0755 root root\nc /dev/net/tun 0666 root root - 10:200\n',
    # DevStack gives its services 300 s to stop, and some use them up; systemd gives others 90 s.
    'etc/systemd/system/devstack@.service.d/stop.conf':
        f'[Service]\nTimeoutStopSec={_STOP_SECONDS}\n',
    'etc/systemd/system.conf.d/stop.conf':
        f'[Manager]\nDefaultTimeoutStopSec={_STOP_SECONDS}\n',
    # Masked: a user's systemd does not end in a container, and later logins wait two minutes.
    'etc/systemd/system/user@.service': '',
    # The repositories are root's, and DevStack's user clones them.
    'etc/gitconfig': '[safe]\n\tdirectory = *\n',
}


def fill(files: layout.Layout, nodes: Sequence[str], progress: commands.Progress) -> None:
    """Install and write all that a container needs before its first start.

    :param nodes: addresses of all nodes
    :raises CloudError: packages cannot be had
    """
    root = files.root.path
    steps = [_DIVERSION]
    # They are copied last.
    if not files.inside(layout.STAND_INS).exists():
        progress('installing systemd and other packages in the root')
        steps = [['apt-get', '-q', 'update'],
                 ['apt-get', '-q', '-y', 'install', '--no-install-recommends', *PACKAGES],
                 _DIVERSION]
    log = files.logs / 'packages.log'
    for argv in steps:
        if jail.run(root, argv, log):
            raise commands.CloudError(f'{" ".join(argv[:4])} failed: see {log}')
    for name, text in _FILES.items():
        write(root / name, text)
    write(root / 'etc/hostname', f'{files.name}\n')
    write(root / 'etc/hosts', hosts(pathlib.Path('/etc/hosts').read_text(), nodes))
    write(root / 'etc/environment', environment())
    shutil.copytree(_STAND_INS, files.inside(layout.STAND_INS), dirs_exist_ok=True)
    for name, stand_in in _LINKS.items():
        path = root / name
        path.unlink(missing_ok=True)
        path.symlink_to(layout.STAND_INS / stand_in)


def hosts(machine: str, nodes: Sequence[str]) -> str:
    """Return the ``/etc/hosts`` of a container: this machine's, and the nodes."""
    return ''.join(f'{line}\n' for line in (machine.rstrip(), *(
        f'{address} {name}' for address, name in zip(nodes, layout.NODES, strict=True))))


def environment() -> str:
    """Return ``/etc/environment``, by which DevStack's user reaches registries as this one."""
    return ''.join(f'{name}={value}\n' for name, value in sorted(
        jail.registries(os.environ).items()))


def write(path: pathlib.Path, text: str) -> None:
    """Write a file, and make its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
