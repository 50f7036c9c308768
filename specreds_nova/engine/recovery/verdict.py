# SPDX-License-Identifier: Apache-2.0
"""What the steps of a recovery tell the next ones."""

from typing import NamedTuple

# The backup runs.
STARTED = 'started'
# The backup may be decided for.
READY = 'ready'
# A decision is under way that somebody else has asked for.
DECIDING = 'deciding'
# Cinder has decided for the backup's version.
PROMOTED = 'promoted'
# The primary was fenced, and then found to have written.
LATE = 'late-dirty'
# It is decided, but nobody knows how: the primary may be fenced.
GONE = 'gone'
# The primary lives.
PRIMARY = 'primary'
# An operator wants it to end, or the server is deleted.
ABORTED = 'aborted'
# This backup is lost; another one may not be.
AGAIN = 'again'
# There is no backup.
EVACUATE = 'evacuate'
# Nor can there be: what a former one wrote is not merged yet. Nova waits for that by itself.
MERGING = 'merging'
FAILED = 'failed'
# Nova knows where the server is.
ADOPTED = 'adopted'


class StepVerdict(NamedTuple):
    """How far a recovery is.

    :ivar kind: one of the above
    :ivar why: in words, where it is not plain
    """

    kind: str
    why: str = ''
