# SPDX-License-Identifier: Apache-2.0
"""What turns this project's plug-ins on in `cinder.conf` and in a compute host's `nova.conf`:
everything, and nothing else."""

from cloud.openstack import files

CINDER: files.Conf = {
    'DEFAULT': {
        'volume_manager': 'specreds_cinder.manager.SuperVolumeManager',
        'volume_api_class': 'specreds_cinder.api.guards.VolumeAPI',
        'backup_api_class': 'specreds_cinder.api.guards.BackupAPI',
        'transfer_api_class': 'specreds_cinder.api.guards.TransferAPI',
        'group_api_class': 'specreds_cinder.api.guards.GroupAPI',
        'osapi_volume_extension': ['cinder.api.contrib.standard_extensions',
                                   'specreds_cinder.api.extension.Superpositions'],
    },
    # A back end that died is found and its work taken up sooner than the default has it.
    'specreds': {'interval': 5},
}

# Set in the section of each back end.
VOLUME_DRIVER = 'specreds_cinder.driver.SuperRBDDriver'
PLAIN_VOLUME_DRIVER = 'cinder.volume.drivers.rbd.RBDDriver'

NOVA: files.Conf = {'DEFAULT': {'compute_driver': 'specreds.SpeculativeLibvirtDriver'}}
