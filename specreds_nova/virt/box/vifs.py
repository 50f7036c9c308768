# SPDX-License-Identifier: Apache-2.0
"""Plugging of ports: a port behind an open box stays in its box.

The network service's agent looks at the switch every two seconds (Neutron's ``[AGENT]
polling_interval``). If one look finds a port unplugged in one place and plugged in another, the
agent wires the port and then takes it for removed. A server that is only restarted therefore keeps
its boxes, and a port whose box was removed is plugged only after the agent has noticed.
"""

from collections.abc import Iterator
import contextlib
import contextvars
import time
from typing import Any

from nova.virt.libvirt import vif as libvirt_vif

# Within this time the agent has looked at the switch, in seconds.
_LOOK = 5.0

_restarting: contextvars.ContextVar[bool] = contextvars.ContextVar(
    'specreds_restarting', default=False)


@contextlib.contextmanager
def restarting() -> Iterator[None]:
    """Mark, within the context, that a server is stopped and started again."""
    token = _restarting.set(True)
    try:
        yield
    finally:
        _restarting.reset(token)


class VIFDriver(libvirt_vif.LibvirtGenericVIFDriver):
    """Plugs the ports of an adopted server into its box until they are unplugged.

    Afterwards, and for a server that never was in a box, it plugs as Nova does.

    :param host: nova.virt.libvirt.host.Host
    :param box: the boxes of this host
    """

    def __init__(self, host: Any, box: Any) -> None:
        super().__init__(host)
        self._box = box
        self._unboxed: dict[str, float] = {}

    def get_config(self, instance: Any, vif: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the configuration of the port's device."""
        return super().get_config(instance, self._through(vif), *args, **kwargs)

    def plug(self, instance: Any, vif: Any) -> None:
        """Plug the port. Idempotent."""
        ended = self._unboxed.pop(vif['id'], None)
        if ended is not None:
            time.sleep(max(0.0, ended + _LOOK - time.monotonic()))
        self._box.prepare_plug(vif['id'])
        super().plug(instance, self._through(vif))

    def unplug(self, instance: Any, vif: Any) -> None:
        """Unplug the port, and remove its box if that is open. Idempotent."""
        super().unplug(instance, self._through(vif))
        if not _restarting.get() and self._box.unplugged([vif]):
            self._unboxed[vif['id']] = time.monotonic()

    def _through(self, vif: Any) -> Any:
        [through] = self._box.through([vif])
        return through
