# SPDX-License-Identifier: Apache-2.0
"""Errors of boxes."""

from specreds_nova import exception


class BoxRefused(exception.BackupError):
    """This host cannot make a box for the server; nothing was started."""

    code = 409
    msg_fmt = 'server %(instance)s cannot be sealed on host %(host)s: %(reason)s'


class BoxFailed(exception.BackupError):
    """A box could not be made or opened."""

    msg_fmt = 'box of port %(port)s: %(reason)s'


class BoxNotFound(exception.BackupError):
    """This host has no box of the backup."""

    code = 404
    msg_fmt = ('this host has no box of backup %(backup_id)s: was the backup started here, and '
               'not aborted?')


class BoxNotRemoved(exception.BackupError):
    """The box is gone from this host, but something that belongs to it is left."""

    msg_fmt = ('backup %(backup_id)s: the box is gone from host %(host)s, but not all '
               'that belongs to it: %(reason)s. Remove it again when that is mended.')
