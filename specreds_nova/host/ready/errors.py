# SPDX-License-Identifier: Apache-2.0
"""Errors of conditions of readiness."""

from specreds_nova import exception


class BadCondition(exception.BackupError):
    """A server's metadata or image properties have a malformed condition."""

    code = 400
    msg_fmt = 'server %(instance)s: %(name)s = %(value)r is no condition of readiness: %(reason)s'
