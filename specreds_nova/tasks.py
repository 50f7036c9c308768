# SPDX-License-Identifier: Apache-2.0
"""Nova's tasks of reboots and of rebuilds.

Nova's API takes a reboot for a server whose host is dead. The server keeps the task of the reboot
until its host has rebooted it. A promoted backup has just booted, which is what was requested.
"""


def is_reboot(task: str | None) -> bool:
    """Return whether a server is being rebooted, or is to be.

    Its host does that alone, moves neither the server nor its ports meanwhile, and a nova-compute
    that starts completes the reboot or forgets it (``ComputeManager._init_instance``).
    """
    return task is not None and task.startswith('reboot')


def is_rebuild(task: str | None) -> bool:
    """Return whether a server is being rebuilt, as by an evacuation."""
    return task is not None and task.startswith('rebuil')
