# SPDX-License-Identifier: Apache-2.0
"""DevStack's ``local.conf`` for the container."""

from collections.abc import Mapping

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

# A container: no KVM, no tuning of the kernel, no block devices, no kernel's Open vSwitch.
LIBVIRT_TYPE=qemu
ENABLE_KSM=False
ENABLE_KSMTUNED=False
CEPHADM_DEV_OSD=False
OVS_DATAPATH_TYPE=netdev
disable_service horizon n-novnc dstat
"""
_PACKAGES = f"""\

# What is a package instead of a download.
DOWNLOAD_DEFAULT_IMAGES=False
IMAGE_URLS=file://{IMAGE}
DEFAULT_IMAGE_NAME={IMAGE.stem}
TEMPEST_RUN_VALIDATION=False
TEMPEST_VENV_UPPER_CONSTRAINTS={repositories.CONSTRAINTS}
"""


def text(host: str, addresses: Mapping[str, str], etcd_sha256: str = '') -> str:
    """Return the contents of the file.

    :param host: address of the container
    :param addresses: of the repositories that are not their developers', by name
    :param etcd_sha256: checksum of etcd's archive, if it is made of packages, as the image is
    """
    plugin = addresses.get(repositories.PLUGIN_CEPH,
                           f'{repositories.DEVELOPERS}/{repositories.PLUGIN_CEPH}')
    lines = [f'HOST_IP={host}', *(
        f'{variable}={addresses[name]}'
        for name, variable in repositories.VARIABLES.items() if name in addresses)]
    parts = [_COMMON, '\n' + '\n'.join(lines) + '\n']
    if etcd_sha256:
        parts.append(f'{_PACKAGES}ETCD_SHA256={etcd_sha256}\n')
    parts.append(f'\nenable_plugin {repositories.PLUGIN_CEPH} {plugin}\n'
                 f'enable_plugin specreds file://{layout.GIT}/specreds.git checkout\n')
    return ''.join(parts)
