# SPDX-License-Identifier: Apache-2.0
"""The configuration of everything on a compute host."""

from collections.abc import Mapping, Sequence
import configparser
import json
import os
import pathlib

from cloud import ceph_conf
from cloud import commands
from cloud import layout as ceph_layout
from cloud import processes
from cloud.hosts import layout as hosts_layout
from cloud.hosts import services
from cloud.openstack import broker
from cloud.openstack import credentials
from cloud.openstack import files as private
from cloud.openstack import layout
from cloud.openstack import neutron
from cloud.openstack import nova
from cloud.openstack import ovn as ovn_central
from specreds_nova import deployment
from specreds_nova.beats import speaker
from specreds_nova.beats import voice

OVSDB = 'unix:/run/openvswitch/db.sock'
PHYSICAL_BRIDGE = 'br-ph'
# Where a host has the file system for huge pages, if it has one.
HUGE_PAGES = '/run/hugepages'
# TCP port of libvirtd on the control network, for live migration.
LIBVIRT_PORT = 16509

_NOVA_PRIVSEP = ('nova_sys_admin', 'privsep_osbrick', 'vif_plug_linux_bridge_privileged',
                 'vif_plug_ovs_privileged')
_NEUTRON_PRIVSEP = ('privsep', 'privsep_conntrack', 'privsep_dhcp_release', 'privsep_link',
                    'privsep_namespace', 'privsep_ovs_vsctl')

# Nobody but the other hosts is on the network that it listens to.
_LIBVIRTD = """\
auth_unix_rw = "none"
unix_sock_rw_perms = "0700"
listen_tls = 0
listen_tcp = 1
listen_addr = "{address}"
tcp_port = "{port}"
auth_tcp = "none"
host_uuid = "{uuid}"
log_outputs = "2:stderr"
"""

# The host is isolated as a whole. Without another daemon for it, QEMU writes consoles to files.
_QEMU = """\
user = "root"
group = "root"
security_driver = "none"
dynamic_ownership = 0
remember_owner = 0
stdio_handler = "file"
cgroup_controllers = [ ]
namespaces = [ ]
migration_address = "{address}"
"""

# At each start libvirt asks QEMU for some 400 properties of its processor, one by one, which takes
# half a second where guests are emulated. Without this capability it asks for two that tell the
# same of an emulated processor (of a real one they do not tell what is in its MSRs).
_QEMU_EMULATED = """\
capability_filters = [ "cpu-unavailable-features" ]
"""

_SECRET = """\
<secret ephemeral='no' private='no'>
  <uuid>{uuid}</uuid>
  <usage type='ceph'><name>client.{user} of {backend}</name></usage>
</secret>
"""


class Writer:
    """Writes the configuration of one host.

    :param passwords: of the cloud
    :param backends: of Cinder; the first ones are on the cloud's own Ceph
    :param virt_type: `kvm` or `qemu`
    """

    def __init__(self, files: hosts_layout.Layout, passwords: Mapping[str, str],
                 backends: Sequence[layout.Backend], virt_type: str) -> None:
        self._files = files
        self._settings = files.settings
        self._passwords = passwords
        self._backends = backends
        self._virt_type = virt_type

    def write(self) -> bool:
        """Write all files, and return whether `nova.conf` has changed.

        :raises CloudError: the key of a back end's Ceph user cannot be read, or CPUs are missing
        """
        files = self._files
        for path in (*(source for source, _ in files.mounts), files.log,
                     files.instances, files.state / 'nova' / 'lock',
                     files.state / 'neutron' / 'lock'):
            path.mkdir(parents=True, exist_ok=True)
        changed = private.write(files.nova_conf, private.ini(self.nova()))
        private.write(files.neutron_conf, private.ini(self.neutron()))
        self._write_libvirt()
        self._write_ceph()
        private.write(files.known_hosts, self._known_hosts())
        if not self._settings.plain:
            self._write_voice_key()
        private.write(files.supervisor_conf, processes.configuration(
            hosts_layout.RUN, files.log, services.programs(files)))
        private.write(files.init_conf, json.dumps(self.init(), indent=1) + '\n')
        return changed

    def nova(self) -> private.Conf:
        """Everything in `nova.conf`."""
        files, settings = self._files, self._settings
        control = str(files.addresses[hosts_layout.CONTROL].ip)
        state = files.state / 'nova'
        return private.merged(
            nova.common(settings, self._passwords),
            {
                'DEFAULT': {'host': files.name, 'my_ip': control, 'state_path': state,
                            'compute_driver': 'libvirt.LibvirtDriver',
                            'instances_path': files.instances,
                            # Until a guest that ignores its power button is switched off.
                            'shutdown_timeout': 10,
                            'force_config_drive': 'false',
                            # The default, vfat, needs a package that nothing else needs.
                            'default_ephemeral_format': 'ext4'},
                # In the userspace datapath a guest's device appears only when its QEMU starts:
                # before that there is nothing for the agent of Neutron to connect.
                'compute': {'live_migration_wait_for_vif_plug': 'false', **self._cpus()},
                'oslo_concurrency': {'lock_path': state / 'lock'},
                'os_brick': {'lock_path': state / 'lock'},
                'os_vif_ovs': {'ovsdb_connection': OVSDB,
                               # A port is on the dead VLAN until the agent has wired it.
                               **({'isolate_vif': 'true'} if settings.dvr else {})},
                'libvirt': {
                    'virt_type': self._virt_type,
                    'cpu_mode': 'none',
                    'images_type': 'raw',
                    **self._disks(),
                    **({'disk_cachemodes': settings.cachemodes} if settings.cachemodes else {}),
                    'rbd_user': self._backends[0].user,
                    'rbd_secret_uuid': self._backends[0].secret(settings),
                    'hw_disk_discard': 'unmap',
                    'live_migration_scheme': 'tcp',
                    'live_migration_inbound_addr': control,
                },
            },
            _privsep(_NOVA_PRIVSEP, files.nova_conf),
            self._cell(),
            {} if settings.plain else deployment.compute(),
            {} if settings.plain or not self._options() else {'specreds': self._options()})

    def _write_voice_key(self) -> None:
        """Write the key with which the sentinel speaks to the engines by UDP."""
        master = bytes.fromhex(self._passwords[credentials.VOICES])
        path = self._files.state / 'nova' / 'specreds' / speaker.KEY
        private.write(path, f'{voice.host_key(master, self._files.name).hex()}\n')

    def _cell(self) -> private.Conf:
        """Return the broker of the host's cell, unless the whole cloud has it."""
        if not self._settings.in_second_cell(self._files.name):
            return {}
        return {'DEFAULT': {'transport_url': broker.url(
            self._settings, self._passwords, layout.SECOND_CELL)}}

    def _cpus(self) -> dict[str, private.Value]:
        """Return which processors are for servers with pinned CPUs, and which for others."""
        if not self._settings.dedicated_cpus:
            return {}
        last = (os.cpu_count() or 1) - 1
        if last < 1:
            raise commands.CloudError('dedicated CPUs: this machine has only one')
        return {'cpu_shared_set': '0', 'cpu_dedicated_set': f'1-{last}'}

    def _options(self) -> dict[str, private.Value]:
        """Return the options of the plug-in that have no default, or are off by default."""
        options: dict[str, private.Value] = {}
        if self._settings.in_second_cell(self._files.name):
            options['heartbeat_transport_url'] = broker.url(self._settings, self._passwords)
        return options

    def _disks(self) -> dict[str, private.Value]:
        """Return where Nova keeps disks that are no volumes."""
        if self._settings.disks == layout.FILES:
            return {}
        return {'images_type': 'rbd', 'images_rbd_pool': nova.POOL,
                'images_rbd_ceph_conf': self._backends[0].conf}

    def neutron(self) -> private.Conf:
        """Everything that the agent of Neutron reads."""
        files = self._files
        state = files.state / 'neutron'
        return private.merged(neutron.common(self._settings, self._passwords), {
            'DEFAULT': {'host': files.name, 'state_path': state},
            'oslo_concurrency': {'lock_path': state / 'lock'},
            'ovs': {'datapath_type': 'netdev', 'ovsdb_connection': OVSDB,
                    'bridge_mappings': f'{neutron.PHYSICAL_NETWORK}:{PHYSICAL_BRIDGE}'},
            'agent': {'root_helper': '', 'extensions': 'dhcp,qos', 'tunnel_types': ''},
            'securitygroup': {'firewall_driver': self._settings.firewall,
                              # ipset is a program of its own, which the hosts do not have.
                              'enable_ipset': 'false', 'enable_security_group': 'true'},
        }, self._dvr() if self._settings.dvr else {},
            _privsep(_NEUTRON_PRIVSEP, files.neutron_conf))

    def _dvr(self) -> private.Conf:
        """What the agents of a host with distributed routers need beside the rest."""
        # Only agents with the centralised part of routers have highly available ones.
        return {'DEFAULT': {'agent_mode': 'dvr_snat', 'interface_driver': 'openvswitch',
                            # A proxy is a program of its own, which the hosts do not have.
                            'enable_metadata_proxy': 'false'},
                'ovs': {'local_ip': str(self._files.tunnel.ip)},
                'agent': {'tunnel_types': 'vxlan', 'l2_population': 'true',
                          'arp_responder': 'true', 'enable_distributed_routing': 'true'}}

    def init(self) -> dict[str, object]:
        """What the host's first process has to know."""
        files = self._files
        addresses = {name: str(address) for name, address in files.addresses.items()}
        return {'name': files.name, 'run': str(hosts_layout.RUN),
                'huge_pages': HUGE_PAGES if self._settings.dedicated_cpus else None,
                'supervisor': str(files.supervisor_conf),
                'addresses': {hosts_layout.TENANT: ''} | addresses,
                'mounts': [[str(source), target] for source, target in (
                    *files.mounts, (files.known_hosts, '/etc/hosts'))]}

    def _write_libvirt(self) -> None:
        files = self._files
        etc = files.etc / 'libvirt'
        control = str(files.addresses[hosts_layout.CONTROL].ip)
        private.write(etc / 'libvirtd.conf', _LIBVIRTD.format(
            address=control, port=LIBVIRT_PORT, uuid=files.uuid))
        emulated = _QEMU_EMULATED if self._virt_type == 'qemu' else ''
        pages = (f'hugetlbfs_mount = "{HUGE_PAGES}"\n' if self._settings.dedicated_cpus else '')
        private.write(etc / 'qemu.conf', _QEMU.format(address=control) + emulated + pages)
        for backend in self._backends:
            uuid = backend.secret(self._settings)
            secret = etc / 'secrets' / f'{uuid}.xml'
            private.write(secret, _SECRET.format(uuid=uuid, user=backend.user,
                                                 backend=backend.name))
            private.write(secret.with_suffix('.base64'), key_of(backend))

    def _write_ceph(self) -> None:
        """What QEMU, and who watches over volumes, reads of the cloud's own Ceph."""
        etc = self._files.etc / 'ceph'
        cluster = ceph_layout.Layout(self._files.cloud.ceph)
        settings = cluster.load()
        if settings is None:
            raise commands.CloudError(f'there is no cluster in {cluster.root}')
        private.write(etc / 'ceph.conf', ceph_conf.hypervisor(settings, '/etc/ceph'))
        for backend in self._backends:
            if backend not in self._settings.extra_backends:
                private.write(etc / f'ceph.client.{backend.user}.keyring',
                              f'[client.{backend.user}]\nkey = {key_of(backend)}\n')

    def _known_hosts(self) -> str:
        lines = ['127.0.0.1 localhost', f'{self._settings.host} {nova.HOST}']
        for number in range(1, self._settings.hosts + 1):
            other = hosts_layout.Layout(self._files.cloud, self._settings, number)
            lines.append(f'{other.addresses[hosts_layout.CONTROL].ip} {other.name}')
        return '\n'.join(lines) + '\n'


def ovn(files: hosts_layout.Layout) -> list[str]:
    """Return what ovn-controller reads in the switch's database, in the words of ovs-vsctl."""
    settings = files.settings
    if not settings.ovn:
        return []
    keys = {'remote': ovn_central.connection(settings, ovn_central.SOUTHBOUND),
            'remote-probe-interval': ovn_central.PROBE_MS,
            # Tunnels of the userspace datapath begin at an address of one of its bridges.
            'encap-type': 'geneve', 'encap-ip': files.tunnel.ip,
            # Each host may have the gateway of a router.
            'cms-options': 'enable-chassis-as-gw',
            'bridge-datapath-type': 'netdev',
            'bridge-mappings': f'{neutron.PHYSICAL_NETWORK}:{PHYSICAL_BRIDGE}'}
    return [f'external_ids:ovn-{key}="{value}"' for key, value in keys.items()]


def key_of(backend: layout.Backend) -> str:
    """The key of a back end's Ceph user.

    :raises CloudError: it cannot be found
    """
    user = f'client.{backend.user}'
    try:
        conf = _read(pathlib.Path(backend.conf))
        keyring = next(conf[section]['keyring'] for section in (user, 'client', 'global')
                       if 'keyring' in conf.setdefault(section, {}))
        return _read(pathlib.Path(keyring.replace('$name', user)))[user]['key']
    except (OSError, KeyError, StopIteration, configparser.Error) as exc:
        raise commands.CloudError(f'back end {backend.name}: the key of {user} cannot be found '
                                  f'through {backend.conf}') from exc


def _read(path: pathlib.Path) -> dict[str, dict[str, str]]:
    """A file of Ceph, in whose names a space is as good as an underscore."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.read_string(path.read_text())
    return {section: {name.replace(' ', '_'): value for name, value in options.items()}
            for section, options in parser.items()}


def _privsep(sections: Sequence[str], conf: pathlib.Path) -> private.Conf:
    """Root needs no sudo, which may not be installed."""
    helper = f'{layout.BIN / "privsep-helper"} --config-file {conf}'
    return {section: {'helper_command': helper} for section in sections}
