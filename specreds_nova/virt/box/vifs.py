# SPDX-License-Identifier: Apache-2.0
"""Nova's way to plug ports, for ports that are behind an open box: they stay there.

The network service's agent looks at the switch every two seconds (Neutron's ``[AGENT]
polling_interval``). A port that it finds unplugged in one place and plugged in another in the same
look it wires, and then takes for one that is gone. So a server that is only started again keeps
its boxes, and a port that has lost its box is not plugged before the agent has seen that.
"""
from collections.abc import Iterator
import contextlib
import contextvars
import time
from typing import Any

from nova.virt.libvirt import vif as libvirt_vif

# Seconds in which the agent has surely looked.
_LOOK = 5.0

_restarting: contextvars.ContextVar[bool] = contextvars.ContextVar(
    'specreds_restarting', default=False)


@contextlib.contextmanager
def restarting() -> Iterator[None]:
    """A server is stopped and started again while the context lasts."""
    token = _restarting.set(True)
    try:
        yield
    finally:
        _restarting.reset(token)


class VIFDriver(libvirt_vif.LibvirtGenericVIFDriver):
    """Plugs the ports of an adopted server into its box until they are unplugged.

    After that they are like any other's, and so is a server that never was in a box.

    :param host: nova.virt.libvirt.host.Host
    :param box: the boxes of this host
    """

    def __init__(self, host: Any, box: Any) -> None:
        super().__init__(host)
        self._box = box
        self._unboxed: dict[str, float] = {}

    def get_config(self, instance: Any, vif: Any, *args: Any, **kwargs: Any) -> Any:
        """:returns: what the domain has for the port"""
        return super().get_config(instance, self._through(vif), *args, **kwargs)

    def plug(self, instance: Any, vif: Any) -> None:
        """Plug the port. Idempotent."""
        ended = self._unboxed.pop(vif['id'], None)
        if ended is not None:
            time.sleep(max(0.0, ended + _LOOK - time.monotonic()))
        self._box.replugging(vif['id'])
        super().plug(instance, self._through(vif))

    def unplug(self, instance: Any, vif: Any) -> None:
        """Unplug the port, and end its box if that is open. Idempotent."""
        super().unplug(instance, self._through(vif))
        if not _restarting.get() and self._box.unplugged([vif]):
            self._unboxed[vif['id']] = time.monotonic()

    def _through(self, vif: Any) -> Any:
        [through] = self._box.through([vif])
        return through
