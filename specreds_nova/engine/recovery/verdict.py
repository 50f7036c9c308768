# SPDX-License-Identifier: Apache-2.0
"""The verdicts that the steps of a recovery pass to the next steps."""

from typing import NamedTuple

# The backup runs.
STARTED = 'started'
# The backup can be promoted.
READY = 'ready'
# A decision is under way that another engine or an operator has requested.
DECIDING = 'deciding'
# Cinder has promoted the backup's version.
PROMOTED = 'promoted'
# The primary was fenced, and then found to have written.
LATE = 'late-dirty'
# A decision was made whose outcome is unknown: the primary may be fenced.
GONE = 'gone'
# The primary lives.
PRIMARY = 'primary'
# An operator has aborted the recovery, or the server is deleted or moved.
ABORTED = 'aborted'
# This backup is lost; another one may succeed.
AGAIN = 'again'
# No backup is possible.
EVACUATE = 'evacuate'
# No backup is possible before an earlier backup's data are merged, for which Nova waits itself.
MERGING = 'merging'
# The primary is being shut out of volumes that cannot be superposed, and is not spared.
SHUT_OUT = 'shut-out'
FAILED = 'failed'
# Nova has the server on its new host.
ADOPTED = 'adopted'


class StepVerdict(NamedTuple):
    """What a step has found out or done.

    :ivar kind: one of the constants above
    :ivar why: the reason in words; empty where the kind says it all. The steps ``destination``
        and ``super`` return the name of the host and the id of the superposition here.
    """

    kind: str
    why: str = ''


# Characters of an error that the database holds.
LONGEST = 255
# What an operator does about a failure, if that is nothing.
NOTHING = 'no action is needed'
AGAIN_LATER = 'no action is needed: the engine tries again'


def make_active(server: str) -> str:
    """Return the command after which engines recover a server that Nova is at work on."""
    return f'openstack server set --state active {server}'


def with_remedy(why: str, remedy: str) -> str:
    """Return why something has failed, and what an operator does about it, in one error.

    The database cuts long errors off: the remedy is kept.
    """
    return f'{why[:LONGEST - len(remedy) - 2]}; {remedy}'


def failed(why: str, remedy: str) -> StepVerdict:
    """Return a failure.

    :param remedy: the one command that helps, or that no action is needed
    """
    return StepVerdict(FAILED, with_remedy(why, remedy))
