# SPDX-License-Identifier: Apache-2.0
"""Requests for evacuations that have been fulfilled here, or are being fulfilled.

An engine repeats a request that it takes for lost. If Nova fulfills both, the second one finds the
guest here: Nova would delete the allocation of the server, and set it to error. nova-compute ends
such a request before it claims anything, in the same way as that for a server that was deleted
meanwhile: the request's record fails, and the server stays as it is.
"""

from collections.abc import Callable
import functools
from typing import Any

from nova import exception as nova_exception
from nova.compute import task_states
from oslo_log import log as logging

from specreds_nova.host import signatures
from specreds_nova.host.backup import host as backup_host

LOG = logging.getLogger(__name__)

# Tasks of a server whose evacuation has come further than one that begins.
_CONTINUED = (task_states.REBUILD_BLOCK_DEVICE_MAPPING, task_states.REBUILD_SPAWNING)


def install(compute: Any) -> None:
    """Make nova-compute end repeated evacuations without harm.

    :param compute: nova.compute.manager.ComputeManager
    """
    tracker = compute.rt
    tracker.rebuild_claim = functools.partial(_claim, tracker.rebuild_claim, compute.host)


def _claim(claim: Callable[..., Any], host: str, *args: Any, **kwargs: Any) -> Any:
    refuse(signatures.arguments(claim, *args, **kwargs)['instance'], host)
    return claim(*args, **kwargs)


def refuse(instance: Any, host: str) -> None:
    """Refuse to evacuate a server to a host that has it, or on which that has come further.

    :raises InstanceNotFound: the request is repeated, or the server is deleted
    """
    try:
        current = backup_host.find_instance(backup_host.admin_context(), instance.uuid)
    except Exception as exc:
        LOG.warning('the evacuation of the server continues although the database does not say '
                    'whether it is repeated: %s', exc, instance=instance)
        return
    if current is not None:
        if current.host != host and current.task_state not in _CONTINUED:
            return
        LOG.info('the server is evacuated to this host once more, and is left as it is: it is on '
                 '%s, with the task %s', current.host, current.task_state, instance=instance)
    raise nova_exception.InstanceNotFound(instance_id=instance.uuid)
