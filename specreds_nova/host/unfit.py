# SPDX-License-Identifier: Apache-2.0
"""Nova's own driver on a host whose Nova the plug-in does not fit: it only says why."""

from collections.abc import Callable
from typing import Any

from nova import rpc
from nova.virt.libvirt import driver
from oslo_log import log as logging

from specreds_nova import exception
from specreds_nova.host import nova_private
from specreds_nova.host.backup import endpoint

LOG = logging.getLogger(__name__)


class PlainLibvirtDriver(driver.LibvirtDriver):
    """LibvirtDriver, on a host without backups and without heartbeats."""

    def init_host(self, host: str) -> None:
        """Initialize as without the plug-in, and answer engines with what differs."""
        super().init_host(host)
        reasons = nova_private.faults()
        LOG.error('there are no backups on this host, and its servers are not recovered: the '
                  'plug-in does not fit the installed Nova: %s', '; '.join(reasons))
        endpoints = getattr(getattr(self.virtapi, '_compute', None), 'additional_endpoints', None)
        if endpoints is not None:
            rpc.add_extra_exmods(exception.__name__)
            refusal = Refusal(reasons)
            endpoints.append(endpoint.Endpoint(refusal, refusal.returned))


class Refusal:
    """Refuses whatever is asked of a host's backups.

    :param reasons: what differs in the installed Nova
    """

    def __init__(self, reasons: list[str]) -> None:
        self._reasons = [f'the plug-in does not fit the Nova of this host: {reason}'
                         for reason in reasons]

    def check(self, instance_uuid: str) -> dict[str, Any]:
        """Return that this host cannot run a server's backup, and why."""
        del instance_uuid
        return {'eligible': False, 'reasons': list(self._reasons)}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def refuse(*args: Any, **kwargs: Any) -> Any:
            del args, kwargs
            raise exception.ServerNotEligible('; '.join(self._reasons))
        return refuse
