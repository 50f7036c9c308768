# SPDX-License-Identifier: Apache-2.0
from unittest import mock

import fixtures
from nova.virt.libvirt import vif as libvirt_vif
import testtools

from specreds_nova.virt.box import vifs


class TestVIFDriver(testtools.TestCase):

    def test_ports_are_where_their_boxes_are(self) -> None:
        box = mock.Mock()
        box.through.return_value = [mock.sentinel.boxed]
        driver = vifs.VIFDriver(mock.sentinel.host, box)
        for name in ('plug', 'unplug', 'get_config'):
            nova = self.useFixture(fixtures.MockPatchObject(
                libvirt_vif.LibvirtGenericVIFDriver, name)).mock
            getattr(driver, name)(mock.sentinel.instance, mock.sentinel.vif)
            nova.assert_called_once_with(mock.sentinel.instance, mock.sentinel.boxed)
        box.through.assert_called_with([mock.sentinel.vif])
        box.unplugged.assert_called_once_with([mock.sentinel.vif])
