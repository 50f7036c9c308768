# SPDX-License-Identifier: Apache-2.0
"""Servers that still run on a host that is back, after they were started elsewhere.

Nova removes evacuated servers from a host only when its nova-compute starts. On a host that hung
or was cut off, nova-compute has never stopped, so the engine requests the removal.
"""

from typing import Any

from nova import exception as nova_exception
from oslo_log import log as logging

from specreds_nova import exception
from specreds_nova.host.backup import host as backup_host

LOG = logging.getLogger(__name__)


def clean(compute: Any, host: str) -> dict[str, Any]:
    """Remove the domains and claims of servers that were evacuated from this host.

    :param compute: Nova's compute manager
    :param host: this host's name in Nova
    :returns: ``clean``, and ``left``, the UUIDs of other hosts' servers that still run here
    :raises UndoIncomplete: Nova could not remove them
    """
    context = backup_host.admin_context()
    try:
        compute._destroy_evacuated_instances(context, compute._get_nodes(context))
    except nova_exception.NovaException as exc:
        raise exception.UndoIncomplete(
            f'evacuated servers could not be removed from host {host}: '
            f'{exc.format_message()}') from exc
    left = []
    for uuid in compute.driver.list_instance_uuids():
        instance = backup_host.find_instance(context, uuid)
        # A server with a task may be moving here.
        if instance is not None and instance.host != host and instance.task_state is None:
            left.append(uuid)
    if left:
        LOG.warning('servers %s belong to other hosts but still run here', ', '.join(left))
    return {'clean': not left, 'left': left}
