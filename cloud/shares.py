# SPDX-License-Identifier: Apache-2.0
"""Share the processors of the one machine that runs a whole cloud.

In production the control plane and the storage are machines of their own, and a booting guest
takes nothing from them. Linux groups processes by session (autogroups, sched(7)) and gives each
group the same share, so that all of a control plane would get as much as a single guest.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
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
    """Set the share of the processors for a process's session, if the kernel allows it.

    :param pid: a process, or `self`
    """
    # Without autogroups every process counts for itself, and there is nothing to mend.
    with contextlib.suppress(OSError):
        pathlib.Path(f'/proc/{pid}/autogroup').write_text(str(nice))


@contextlib.contextmanager
def confined(members: Callable[[], Iterable[int]]) -> Iterator[None]:
    """Have processes, and what they start, run on the last of the processors while this lasts.

    :param members: gives them as they are at a moment
    """
    everywhere = os.sched_getaffinity(0)
    _run_on(members, {max(everywhere)})
    try:
        yield
    finally:
        _run_on(members, everywhere)


def _run_on(members: Callable[[], Iterable[int]], processors: Collection[int]) -> None:
    # What was started while this looked for the first time is there at the second.
    for _ in range(2):
        for pid in members():
            for thread in _threads(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(thread, processors)


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f'/proc/{pid}/task')]
    except OSError:
        return []
