# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a box."""
from specreds_nova import exception


class BoxRefused(exception.BackupError):
    """No box can be made for this server here; nothing was started."""

    code = 409
    msg_fmt = 'Server %(instance)s cannot be sealed on host %(host)s: %(reason)s'


class BoxFailed(exception.BackupError):
    """A box could not be made or opened."""

    msg_fmt = 'The box of port %(port)s: %(reason)s'


class BoxNotFound(exception.BackupError):
    """There is no box of this recovery on this host."""

    code = 404
    msg_fmt = ('This host has no box of recovery %(recovery)s. Was the recovery started here, '
               'and not aborted?')


class BoxNotRemoved(exception.BackupError):
    """The local parts are gone, but the network service still has its part."""

    msg_fmt = ('Recovery %(recovery)s: the box is gone from host %(host)s, but not what the '
               'network service keeps of it: %(reason)s. Remove it again once the network '
               'service answers.')
