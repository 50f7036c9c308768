# SPDX-License-Identifier: Apache-2.0
"""Errors of disks that cannot be opened on this host."""

from specreds_nova import exception


class NotHere(exception.BackupError):
    """The current version of the volumes is, or may be, in use on another host."""

    code = 409


class VersionUnknown(exception.BackupError):
    """Cinder does not report which version of a volume is current."""

    code = 503
