# SPDX-License-Identifier: Apache-2.0
"""``harden``, ``promote`` and ``abort``: decide about a backup."""

from cloud.backup import base


class Harden(base.StepCommand):
    """Make the writes of a backup durable, right before its volumes are promoted."""

    step = 'harden'


class Promote(base.StepCommand):
    """Open the box of a backup. Refused unless Cinder has promoted its volumes."""

    step = 'promote'


class Abort(base.StepCommand):
    """Remove a backup without a trace. Refused if Cinder has promoted its volumes."""

    step = 'abort'
