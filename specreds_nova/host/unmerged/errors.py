# SPDX-License-Identifier: Apache-2.0
"""Errors of operations that have to wait for the end of a merge."""

from specreds_nova import exception


class NotMerged(exception.BackupError):
    """The server's disks still go through overlays, which the operation cannot handle."""

    code = 409
