# SPDX-License-Identifier: Apache-2.0
"""The network interfaces of servers on this host, set by the kernel without libvirt or QEMU."""

import errno
from typing import Any

from oslo_log import log as logging
import pyroute2

LOG = logging.getLogger(__name__)

_IFF_UP = 1


class Links:
    """Reads and sets interfaces. Its methods do not raise for an interface that is gone."""

    def up(self, name: str) -> int | None:
        """Return the index of an interface that is administratively up; None otherwise."""
        link = _find(name)
        return link['index'] if link is not None and link['flags'] & _IFF_UP else None

    def there(self, name: str, index: int) -> bool:
        """Return whether an interface is still there, and not another one of its name."""
        link = _find(name)
        return link is not None and link['index'] == index

    def set(self, name: str, index: int, state: str) -> bool:
        """Set an interface ``up`` or ``down``, and return whether it is."""
        try:
            with pyroute2.IPRoute() as route:
                route.link('set', index=index, state=state)
        except pyroute2.NetlinkError as exc:
            if exc.code != errno.ENODEV:
                LOG.error('%s could not be set %s: %s', name, state, exc)
            return False
        return True


def _find(name: str) -> Any:
    with pyroute2.IPRoute() as route:
        for index in route.link_lookup(ifname=name):
            try:
                return next(iter(route.get_links(index)), None)
            except pyroute2.NetlinkError:
                # It went meanwhile.
                return None
    return None
