# SPDX-License-Identifier: Apache-2.0
"""When a backup counts as recovered: it says so itself, in a way its owner chose."""
from specreds_nova.virt.ready.conditions import Condition
from specreds_nova.virt.ready.conditions import default
from specreds_nova.virt.ready.conditions import parse
from specreds_nova.virt.ready.errors import BadCondition
from specreds_nova.virt.ready.watching import Watch
from specreds_nova.virt.ready.watching import watch

__all__ = ('BadCondition', 'Condition', 'Watch', 'default', 'parse', 'watch')
