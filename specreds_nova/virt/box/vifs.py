# SPDX-License-Identifier: Apache-2.0
"""Nova's way to plug ports, for ports that are behind an open box: they stay there."""
from typing import Any

from nova.virt.libvirt import vif as libvirt_vif


class VIFDriver(libvirt_vif.LibvirtGenericVIFDriver):
    """Plugs the ports of an adopted server into its box until they are unplugged.

    After that they are like any other's, and so is a server that never was in a box.

    :param host: nova.virt.libvirt.host.Host
    :param box: the boxes of this host
    """

    def __init__(self, host: Any, box: Any) -> None:
        super().__init__(host)
        self._box = box

    def get_config(self, instance: Any, vif: Any, *args: Any, **kwargs: Any) -> Any:
        """:returns: what the domain has for the port"""
        return super().get_config(instance, self._through(vif), *args, **kwargs)

    def plug(self, instance: Any, vif: Any) -> None:
        """Plug the port. Idempotent."""
        super().plug(instance, self._through(vif))

    def unplug(self, instance: Any, vif: Any) -> None:
        """Unplug the port, and end its box if that is open. Idempotent."""
        super().unplug(instance, self._through(vif))
        self._box.unplugged([vif])

    def _through(self, vif: Any) -> Any:
        [through] = self._box.through([vif])
        return through
