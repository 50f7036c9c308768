# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a condition of readiness."""
from specreds_nova import exception


class BadCondition(exception.BackupError):
    """A server's metadata or image properties name a condition that makes no sense."""

    code = 400
    msg_fmt = 'Server %(instance)s: %(name)s = %(value)r is no condition of readiness: %(reason)s'
