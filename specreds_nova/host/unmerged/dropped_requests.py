# SPDX-License-Identifier: Apache-2.0
"""Requests that a host finds in its queue although the engine has dropped them.

Nova's API takes requests for a server whose host is dead. The engine resets the state of such a
server and has it evacuated, but the request stays in the queue of the host. When the host is back,
Nova's manager would fulfill the request here, and change the server on its new host:

=========== ======================================================================================
stop        marks the server as stopped, since Nova expects no task of a server without a domain
pause       removes the task that the server has on its new host
suspend     puts the server into ERROR, as its domain is missing
shelve      unbinds the ports of a server that boots from a volume, and removes its allocations
rescue      starts a rescue guest, or puts the server into ERROR
password    removes the task that the server has on its new host, if its guest still runs here
detach      makes a volume available in Cinder that the guest on the new host goes on writing;
            takes a port from the guest on the new host, if its guest still runs here
attach      destroys the block device that the new host has attached, as its work here fails
reboot      starts a second guest, if a user has asked for another reboot on the new host
=========== ======================================================================================

So the driver refuses them if the database has the server on another host or, but for a stop, a
detachment and a reboot, with another task. A reboot and a detachment are refused if the server is
being evacuated; with any other task, the guest of a reboot would stay shut down here. The host may
also have begun a request, and hang until the engine has dropped it. The driver therefore looks
again at the end of each operation that may last: after the shutdown of a guest, after its
suspension, after the detachment of a volume, and before the guest of a reboot or a rescue is
started.

Nova's manager destroys the block device of an attachment after any error of the driver, so
nova-compute drops such a request before. The new host attaches the volume when it evacuates the
server.
"""

from collections.abc import Callable, Iterator
import contextlib
import functools
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova.compute import task_states
import nova.conf
from oslo_log import log as logging

from specreds_nova import tasks
from specreds_nova.host import signatures

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

# Nova expects exactly these in the database while it fulfills the request.
_TASKS = (task_states.PAUSING, task_states.SUSPENDING, task_states.SHELVING, task_states.RESCUING,
          task_states.UPDATING_PASSWORD)


@contextlib.contextmanager
def refused(instance: Any) -> Iterator[None]:
    """Refuse a request that was dropped, before and after its work. Raises as refuse does."""
    refuse(instance)
    try:
        yield
    finally:
        # Nova would take an error, such as of a domain that is gone, for one of the server.
        # If the database cannot be read, the outcome of the work stands.
        with contextlib.suppress(nova_exception.InstanceFaultRollback):
            refuse(instance)


def refuse(instance: Any) -> None:
    """Refuse a request that was dropped, so that Nova leaves the server as the database has it.

    :param instance: the server as the request has it
    :raises UnexpectedTaskStateError: the server is on another host, or has another task (but for a
        reboot: it is being evacuated)
    :raises InstanceNotFound: it is deleted
    :raises InstanceFaultRollback: the database cannot be read; Nova leaves the server as it was
    """
    rebooted = tasks.is_reboot(instance.task_state)
    if not (rebooted or instance.task_state in _TASKS) or instance.host != CONF.host:
        # The last case is a backup of a server whose own host has such a request.
        return
    try:
        current = _read(instance)
    except nova_exception.InstanceNotFound:
        raise
    except Exception as exc:
        if rebooted:
            # Nova would leave its guest shut down, and put the server into ERROR.
            LOG.warning('the reboot of server %s continues although the database does not say '
                        'whether the server is still here: %s', instance.uuid, exc)
            return
        raise nova_exception.InstanceFaultRollback(exc) from exc
    if current.host == instance.host and (
            (rebooted and not tasks.is_rebuild(current.task_state))
            or current.task_state == instance.task_state):
        return
    error = _error(instance, current)

    def save(*_args: Any, **_kwargs: Any) -> None:
        raise error
    # After an error of a suspension or a rescue Nova would save the server as being in ERROR. This
    # is the request's own copy of it.
    instance.save = save
    raise error


def install(compute: Any) -> None:
    """Have nova-compute drop attachments of servers that have left this host.

    :param compute: nova.compute.manager.ComputeManager, before it takes requests
    """
    for name in ('attach_volume', 'reserve_block_device_name'):
        setattr(compute, name, functools.partial(_attach, getattr(compute, name)))


def _attach(attach: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    refuse_detachment(signatures.arguments(attach, *args, **kwargs)['instance'])
    return attach(*args, **kwargs)


@contextlib.contextmanager
def refused_detachment(instance: Any) -> Iterator[None]:
    """Refuse to detach a volume or a port, before and after. Raises as refuse_detachment does."""
    refuse_detachment(instance)
    yield
    refuse_detachment(instance)


def refuse_detachment(instance: Any) -> None:
    """Refuse to change the devices of a server that has left, or is being evacuated.

    For any error, Nova cancels the detachment of a volume
    (``DriverVolumeBlockDevice.driver_detach``), and keeps a port.

    :raises UnexpectedTaskStateError: the server is
    """
    if instance.host != CONF.host:
        # The destination of a live migration that failed.
        return
    current = _read(instance)
    if current.host != instance.host or tasks.is_rebuild(current.task_state):
        raise _error(instance, current)


def refuse_stop(instance: Any) -> None:
    """Refuse to stop a server without a domain that is on another host.

    :raises UnexpectedTaskStateError: it is
    """
    current = _read(instance)
    if current.host != instance.host:
        raise _error(instance, current)


def _read(instance: Any) -> Any:
    """Return a server from the database."""
    return objects.Instance.get_by_uuid(
        nova_context.get_admin_context(), instance.uuid, expected_attrs=[])


def _error(instance: Any, current: Any) -> nova_exception.UnexpectedTaskStateError:
    """Return an error for which Nova leaves the server's state as it is."""
    return nova_exception.UnexpectedTaskStateError(
        instance_uuid=instance.uuid,
        expected={'host': instance.host, 'task_state': instance.task_state},
        actual={'host': current.host, 'task_state': current.task_state})
