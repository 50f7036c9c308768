# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with backups; each says what happened, to what, and what to do."""

from nova import exception


class BackupError(exception.NovaException):
    """Base of what nova-compute answers when it cannot do what was asked of a backup."""

    msg_fmt = '%(reason)s'


class BadRequest(BackupError):
    """What was asked makes no sense."""

    code = 400


class BackupNotFound(BackupError):
    """The host has no such backup."""

    code = 404


class BackupConflict(BackupError):
    """The phase of the backup does not allow the step."""

    code = 409


class ServerNotEligible(BackupError):
    """This host cannot run a backup of the server."""

    code = 409


class StartFailed(BackupError):
    """The backup could not be started; what had been begun is undone."""


class BackupLost(BackupError):
    """The backup does not run any more."""

    code = 409


class UndoIncomplete(BackupError):
    """Something of a backup could not be removed; it is tried again."""


class SuperpositionRefused(BackupError):
    """Cinder does not allow it."""

    code = 409


class SuperpositionUnknown(BackupError):
    """Cinder does not answer, so it is not known what became of the superposition."""

    code = 503


class PlacementUnknown(BackupError):
    """Placement does not answer."""

    code = 503


EXPECTED = (BackupError,)
