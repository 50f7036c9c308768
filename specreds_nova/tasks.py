# SPDX-License-Identifier: Apache-2.0
"""Nova's tasks of reboots and of rebuilds.

Nova's API takes a reboot for a server whose host is dead. The server keeps the task of the reboot
as long as its host does not do it. A backup serves the user who has asked for that as well.
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
