# SPDX-License-Identifier: Apache-2.0
"""Base class of the tests of servers with disks that Nova keeps in RBD."""

from typing import Any

from cloud import commands
from cloud import drill as drills
from cloud.openstack import layout
from cloud.openstack import nova
from specreds_nova.tests.engine import base


class DisksTestCase(base.EngineTestCase):
    """A test on a cloud whose Nova keeps disks in RBD."""

    def setUp(self) -> None:
        super().setUp()
        if self.cloud.settings.disks != layout.RBD:
            self.skipTest(f'bring the cloud up with --disks {layout.RBD}')

    def boot_from_image(self, *more: dict[str, Any], **fields: Any) -> drills.Server:
        """Boot a server from an image, without volumes.

        :param more: other block devices
        :param fields: of the request to Nova, and its flavor
        """
        image = self.drill.devices('g1', (2,))[0]['uuid']
        return self.boot(metadata={'specreds:ready': 'tcp:80'}, imageRef=image,
                         block_device_mapping_v2=[{
                             'boot_index': 0, 'source_type': 'image', 'uuid': image,
                             'destination_type': 'local', 'delete_on_termination': True}, *more],
                         **fields)

    def images(self) -> list[str]:
        """Return the names of the images in the pool of Nova's disks."""
        return commands.run(['rbd', '--conf', str(self.cloud.ceph.admin_conf),
                             '--name', 'client.admin', 'ls', nova.POOL]).split()
