# SPDX-License-Identifier: Apache-2.0
"""Nova's tasks that a host does alone, and of rebuilds.

Nova's API takes a reboot for a server whose host is dead. The server keeps the task of the reboot
until its host has rebooted it. A promoted backup has just booted, which is what was requested.
"""

STOPPING = 'powering-off'
# Beginnings of the tasks that the host of a server does alone, and refuses if it finds them in its
# queue after the server was evacuated: Nova's manager and, for all but reboots and snapshots, this
# plug-in's driver look at the server first (specreds_nova.host.unmerged.dropped_requests). Nova
# would do other ones to the server on its new host.
_OF_ITS_HOST = ('reboot', 'image_', STOPPING, 'pausing', 'suspending', 'shelving', 'rescuing',
                'updating_password')
# A server that is shelved already.
_OFFLOADING = 'shelving_offloading'


def is_reboot(task: str | None) -> bool:
    """Return whether a server is being rebooted, or is to be.

    Its host does that alone, moves neither the server nor its ports meanwhile, and a nova-compute
    that starts completes the reboot or forgets it (``ComputeManager._init_instance``).
    """
    return task is not None and task.startswith('reboot')


def is_rebuild(task: str | None) -> bool:
    """Return whether a server is being rebuilt, as by an evacuation."""
    return task is not None and task.startswith('rebuil')


def is_of_its_host(task: str | None) -> bool:
    """Return whether the host of a server does a task alone, so that it remains if the host dies.

    Nova's API accepts such a request even if the host is dead, and leaves it in the host's queue
    (``nova.compute.api.API.reboot``, for example).
    """
    return task is not None and task != _OFFLOADING and task.startswith(_OF_ITS_HOST)
