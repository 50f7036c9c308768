# SPDX-License-Identifier: Apache-2.0
"""Plugging of ports: a port behind an open box stays in its box.

The network service's agent looks at the switch every two seconds (Neutron's ``[AGENT]
polling_interval``). If one look finds a port unplugged in one place and plugged in another, the
agent wires the port and then treats it as removed. A server that is only restarted therefore keeps
its boxes, and a port whose box was removed is plugged only after the agent has noticed.

A restarted server gets a new device in its box. The agent must not notice that the old one is
gone: it could treat the port as removed, and overlook its return, because it reads what happened
from one connection to the switch's database, and what exists from another, possibly older one. The
end of the old device is therefore hidden from the agent, unless Nova waits for the port's return.

The start or the removal of a backup changes the profile of the server's port on the primary's
host, and Neutron binds the port anew: for a moment it is bound to nothing. If Nova has read the
port then, to plug it, the port is read again until it is bound.
"""

from collections.abc import Iterator
import contextlib
import contextvars
import time
from typing import Any

from nova import context as nova_context
from nova.network import model as network_model
from nova.network import neutron
from nova.virt.libvirt import vif as libvirt_vif
from oslo_config import cfg
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

# Within this time the agent has looked at the switch, in seconds.
_LOOK = 5.0
# Seconds for which a port may be bound to nothing, and between two looks at it.
_UNBOUND, _INTERVAL = 10.0, 0.2

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
        _await_binding(instance, vif)
        return super().get_config(instance, self._through(vif), *args, **kwargs)

    def plug(self, instance: Any, vif: Any) -> None:
        """Plug the port. Idempotent."""
        _await_binding(instance, vif)
        ended = self._unboxed.pop(vif['id'], None)
        if ended is not None:
            time.sleep(max(0.0, ended + _LOOK - time.monotonic()))
        self._box.prepare_plug(vif['id'])
        super().plug(instance, self._through(vif))

    def unplug(self, instance: Any, vif: Any) -> None:
        """Unplug the port, and remove its box if that is open. Idempotent."""
        restarts = _restarting.get()
        if restarts and not _return_is_awaited(vif):
            self._box.prepare_replug(vif['id'])
        super().unplug(instance, self._through(vif))
        if not restarts and self._box.unplugged([vif]):
            self._unboxed[vif['id']] = time.monotonic()

    def _through(self, vif: Any) -> Any:
        [through] = self._box.through([vif])
        return through


def _return_is_awaited(vif: Any) -> bool:
    """Return whether a hard reboot waits for the network service to have plugged a port again."""
    types: list[str] = cfg.CONF.workarounds.wait_for_vif_plugged_event_during_hard_reboot
    return vif.get('vnic_type') in types


def _await_binding(instance: Any, vif: Any) -> None:
    """Wait until a port is bound, if Nova has read it while it was not; bring it up to date.

    Nova refuses a port that is not bound in time, as it does without this.
    """
    limit = time.monotonic() + _UNBOUND
    while vif.get('type') == network_model.VIF_TYPE_UNBOUND:
        LOG.info('port %s is not bound: reading it again', vif['id'])
        for current in neutron.API().get_instance_nw_info(nova_context.get_admin_context(),
                                                          instance):
            if current['id'] == vif['id']:
                vif.update(current)
        if time.monotonic() >= limit:
            return
        time.sleep(_INTERVAL)
