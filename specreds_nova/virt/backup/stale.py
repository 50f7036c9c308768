# SPDX-License-Identifier: Apache-2.0
"""What a host does that is back, after its servers were started elsewhere.

Nova itself looks for what was evacuated from a host only when its nova-compute starts. A host that
was cut off, or hung, goes on with the one it has: so it is asked to look now.
"""

from typing import Any

from nova import exception as nova_exception
from oslo_log import log as logging

from specreds_nova import exception
from specreds_nova.virt.backup import host as backup_host

LOG = logging.getLogger(__name__)


class Returning:
    """Removes what is stale on this host.

    :param compute: Nova's compute manager
    :param host: its name in Nova
    """

    def __init__(self, compute: Any, host: str) -> None:
        self._compute = compute
        self._host = host

    def clean(self) -> dict[str, Any]:
        """Remove the domains and claims of servers that were evacuated from here.

        :returns: ``clean``, and the UUIDs of the servers of other hosts that are ``left``
        :raises UndoIncomplete: Nova could not
        """
        context = backup_host.admin_context()
        try:
            self._compute._destroy_evacuated_instances(
                context, self._compute._get_nodes(context))
        except nova_exception.NovaException as exc:
            raise exception.UndoIncomplete(
                f'what was evacuated from host {self._host} could not be removed: '
                f'{exc.format_message()}') from exc
        left = self._astray(context)
        if left:
            LOG.warning('servers %s are of other hosts, and are left here', ', '.join(left))
        return {'clean': not left, 'left': left}

    def _astray(self, context: Any) -> list[str]:
        """The servers that run here and are another host's, unless they are on their way."""
        found = []
        for uuid in self._compute.driver.list_instance_uuids():
            instance = backup_host.find_instance(context, uuid)
            if (instance is not None and instance.host != self._host
                    and instance.task_state is None):
                found.append(uuid)
        return found
