# SPDX-License-Identifier: Apache-2.0
"""Who gets the processors of the one machine that plays a whole cloud.

Elsewhere the control plane and the storage are machines of their own: that a guest boots takes
nothing from them. Linux groups processes by session (autogroups, sched(7)) and gives each group
the same share, so that all of a control plane would get as much as a single guest.
"""

import contextlib
import os
import pathlib

# As `nice` counts, of a whole session. Guests, each in a session that its libvirt makes, have 0.
CONTROL = -3
STORAGE = -8
HOST = -2
# Of a tenant's users, who are elsewhere; and of a guest whose host has processors of its own,
# where it matters that backups on other hosts take nothing from it.
USER = -5
ALONE = -10


def prefer(pid: int | str, nice: int) -> None:
    """Give a process's session another share than others have, where that can be done.

    :param pid: a process, or `self`
    """
    # Without autogroups every process counts for itself, and there is nothing to mend.
    with contextlib.suppress(OSError):
        pathlib.Path(f'/proc/{pid}/autogroup').write_text(str(nice))


def confine(pid: int) -> None:
    """Let a process run on the last of the processors only, if there are several.

    :param pid: one that may end meanwhile
    """
    processors = os.sched_getaffinity(0)
    if len(processors) < 2:
        return
    with contextlib.suppress(OSError):
        for thread in os.listdir(f'/proc/{pid}/task'):
            os.sched_setaffinity(int(thread), {max(processors)})
