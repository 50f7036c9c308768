# SPDX-License-Identifier: Apache-2.0
"""The errors of backups. Each says what happened, to which object, and what to do."""

from nova import exception


class BackupError(exception.NovaException):
    """Base of the errors that nova-compute returns for requests about backups."""

    msg_fmt = '%(reason)s'


class BadRequest(BackupError):
    """The request is invalid."""

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
    """The backup could not be started; everything begun was undone."""


class BackupLost(BackupError):
    """The backup has stopped running."""

    code = 409


class UndoIncomplete(BackupError):
    """A part of a backup could not be removed; removing is repeated later."""


class SuperpositionRefused(BackupError):
    """Cinder refuses the request."""

    code = 409


class SuperpositionUnknown(BackupError):
    """Cinder does not answer, so the state of the superposition is unknown."""

    code = 503


class PlacementUnknown(BackupError):
    """Placement does not answer."""

    code = 503


class ReportFailed(BackupError):
    """Nova does not take what a host reports, so that its scheduler has an older view."""

    code = 503


EXPECTED = (BackupError,)
