# SPDX-License-Identifier: Apache-2.0
"""DevStack's ``local.conf`` for the containers."""

from collections.abc import Mapping, Sequence

from cloud.devstack import layout
from cloud.devstack import repositories

IMAGE = layout.GIT / 'images' / 'g1.img'
_COMMON = f"""\
[[local|localrc]]
ADMIN_PASSWORD=secret
DATABASE_PASSWORD=$ADMIN_PASSWORD
RABBIT_PASSWORD=$ADMIN_PASSWORD
SERVICE_PASSWORD=$ADMIN_PASSWORD
LOGFILE={layout.STACK_LOG}
LOG_COLOR=False
# Seconds for a service to answer. 60, DevStack's own limit, are too few on a busy machine.
SERVICE_TIMEOUT=600

# A container: no KVM, no tuning of the kernel, no block devices, no kernel's Open vSwitch.
LIBVIRT_TYPE=qemu
ENABLE_KSM=False
ENABLE_KSMTUNED=False
CEPHADM_DEV_OSD=False
OVS_DATAPATH_TYPE=netdev
# In user space, Open vSwitch has no tunnels by interfaces that are not its own.
Q_ML2_TENANT_NETWORK_TYPE=vlan
TENANT_VLAN_RANGE=100:199
"""
# The plug-in chooses Open vSwitch's agents unless something is chosen here.
_OVN = 'Q_AGENT=ovn\n'
_HOST = '$DEST/specreds/devstack/tools/host'
_CONTROLLER = f"""\
disable_service horizon n-novnc dstat etcd3
# One process for all commands of the OpenStack client, as in DevStack's own jobs.
enable_service openstack-cli-server

# Tests may do anything to the nodes, which are theirs alone.
SPECREDS_TEMPEST_DESTRUCTIVE=True
SPECREDS_TEMPEST_KILL_COMMAND="{_HOST} kill {{host}}"
SPECREDS_TEMPEST_BOOT_COMMAND="{_HOST} boot {{host}}"
SPECREDS_TEMPEST_HANG_COMMAND="{_HOST} hang {{host}}"
SPECREDS_TEMPEST_RESUME_COMMAND="{_HOST} resume {{host}}"
"""
# Servers start where more memory is left, and services need some of the controller's. So the tests
# kill the second node first.
_MEMORY = """\

[[post-config|$NOVA_CONF]]
[DEFAULT]
reserved_host_memory_mb = 4096
"""
# Guest G1 has no ssh.
_GUEST = """\

[[test-config|$TEMPEST_CONFIG]]
[specreds]
guest_command = env PYTHONPATH=$DEST/specreds python3 -m cloud.tempest_guest {action} {address}
server_ready = tcp:80
"""
# As devstack/samples/compute.conf.
_COMPUTE = """\
SERVICE_HOST={controller}
DATABASE_TYPE=mysql
MYSQL_HOST=$SERVICE_HOST
RABBIT_HOST=$SERVICE_HOST
GLANCE_HOSTPORT=$SERVICE_HOST:9292
ENABLED_SERVICES=n-cpu,placement-client,{services}
REMOTE_CEPH=True
CINDER_CEPH_UUID={key}
"""
# What wires servers. Routers of OVN stay on the node that tests do not kill.
_WIRING = {
    'openvswitch': 'q-agt',
    'ovn': 'ovn-controller,ovs-vswitchd,ovsdb-server,q-ovn-agent\nENABLE_CHASSIS_AS_GW=False'}
_PACKAGES = f"""\

# What is a package instead of a download.
DOWNLOAD_DEFAULT_IMAGES=False
IMAGE_URLS=file://{IMAGE}
DEFAULT_IMAGE_NAME={IMAGE.stem}
TEMPEST_RUN_VALIDATION=False
TEMPEST_VENV_UPPER_CONSTRAINTS={repositories.CONSTRAINTS}
"""


def text(index: int, nodes: Sequence[str], addresses: Mapping[str, str],
         packages: bool = False, key: str = '', network: str = layout.NETWORKS[0]) -> str:
    """Return the contents of the file of a node.

    :param index: of the node
    :param nodes: addresses of all nodes; the first one is the controller
    :param addresses: of the repositories that are not their developers', by name
    :param packages: whether the image is made here, instead of a download
    :param key: libvirt's name, on the controller, for the key to the volumes
    :param network: what wires servers
    """
    plugin = addresses.get(repositories.PLUGIN_CEPH,
                           f'{repositories.DEVELOPERS}/{repositories.PLUGIN_CEPH}')
    lines = [f'HOST_IP={nodes[index]}', *(
        f'{variable}={addresses[name]}'
        for name, variable in repositories.VARIABLES.items() if name in addresses)]
    parts = [_COMMON, _OVN if network == 'ovn' else '',
             _COMPUTE.format(controller=nodes[0], key=key, services=_WIRING[network])
             if index else _CONTROLLER, '\n' + '\n'.join(lines) + '\n']
    if packages:
        parts.append(_PACKAGES)
    parts.append(f'\nenable_plugin {repositories.PLUGIN_CEPH} {plugin}\n'
                 f'enable_plugin specreds file://{layout.GIT}/specreds.git checkout\n')
    if not index:
        parts.append(_MEMORY)
    if not index and packages:
        parts.append(_GUEST)
    return ''.join(parts)
