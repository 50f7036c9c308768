# SPDX-License-Identifier: Apache-2.0
"""Readiness: a backup reports that it serves, in the way that its owner chose."""

from specreds_nova.host.ready.conditions import Condition
from specreds_nova.host.ready.conditions import default
from specreds_nova.host.ready.conditions import parse
from specreds_nova.host.ready.errors import BadCondition
from specreds_nova.host.ready.watching import ReadinessWatch
from specreds_nova.host.ready.watching import watch
from specreds_nova.host.ready.watching import watch_frames

__all__ = ('BadCondition', 'Condition', 'ReadinessWatch', 'default', 'parse', 'watch',
           'watch_frames')
