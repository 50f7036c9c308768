# SPDX-License-Identifier: Apache-2.0
"""Requests for evacuations that have been fulfilled here, or are being fulfilled.

An engine repeats a request that it takes for lost. If Nova fulfills both, the second one finds the
guest here: Nova would delete the allocation of the server, and set it to error. nova-compute ends
such a request before it claims anything, in the same way as that for a server that was deleted
meanwhile: the request's record fails, and the server stays as it is.

A request may also wait in the queue of a host that is off, while the engine has the server
evacuated to another one. Nova's own check of the task would end it when the host is back, and set
the server, which runs on the other host, to error.
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
    tracker.rebuild_claim = functools.partial(_claim, tracker.rebuild_claim, tracker, compute.host)


def _claim(claim: Callable[..., Any], tracker: Any, host: str, *args: Any, **kwargs: Any) -> Any:
    named = signatures.arguments(claim, *args, **kwargs)
    refuse(named['instance'], host, functools.partial(
        tracker.delete_allocation_for_evacuated_instance, named['context'], named['instance'],
        named['nodename'], node_type='destination'))
    return claim(*args, **kwargs)


def refuse(instance: Any, host: str, withdraw: Callable[[], object] = lambda: None) -> None:
    """Refuse to evacuate a server that is here, or whose evacuation has ended or come further.

    :param withdraw: deletes the allocation of the server on this host; called if the server is on
        another host, and nobody evacuates it
    :raises InstanceNotFound: the request is repeated or void, or the server is deleted
    """
    try:
        current = backup_host.find_instance(backup_host.admin_context(), instance.uuid)
    except Exception as exc:
        LOG.warning('the evacuation of the server continues although the database does not say '
                    'whether it is repeated: %s', exc, instance=instance)
        return
    if current is not None:
        if current.host != host and current.task_state == task_states.REBUILDING:
            return
        LOG.info('the server is evacuated to this host once more, and is left as it is: it is on '
                 '%s, with the task %s', current.host, current.task_state, instance=instance)
        if current.host != host and current.task_state not in _CONTINUED:
            try:
                withdraw()
            except Exception as exc:
                LOG.warning('the allocation of the server on this host stays in Placement: %s',
                            exc, instance=instance)
    raise nova_exception.InstanceNotFound(instance_id=instance.uuid)
