# SPDX-License-Identifier: Apache-2.0
"""Why an operation on a server is refused; each says until when."""

from specreds_nova import exception


class NotMerged(exception.BackupError):
    """The server's disks still go through overlays, which the operation does not know of."""

    code = 409


class NotHere(exception.BackupError):
    """The version of the volumes that counts is, or may be, in use on another host."""

    code = 409


class VersionUnknown(exception.BackupError):
    """Nobody knows which version of a volume counts."""

    code = 503
