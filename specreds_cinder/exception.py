# SPDX-License-Identifier: Apache-2.0
"""Errors that the volume service returns for requests on superpositions.

Each error is a subclass of Cinder's ``Invalid``: Cinder's API turns it into a fault with the
error's own code and text.
"""

from cinder import exception


class SuperpositionError(exception.Invalid):
    """Base of the errors of superpositions; raised itself for unexpected failures.

    :param state: the superposition's state, where the error depends on it
    :param reasons: the reasons why a volume cannot be superposed
    :cvar error_code: the name of the error for programs, in answers of the API
    """

    code = 500
    error_code: str | None = None
    message = '%(reason)s'

    def __init__(self, reason: str, *, state: str | None = None,
                 reasons: tuple[str, ...] = ()) -> None:
        self.state = state
        self.reasons = tuple(reasons)
        super().__init__(reason=reason)


class SuperpositionInvalid(SuperpositionError):
    """The request is invalid in any state of the superposition."""

    code = 400


class SuperpositionNotFound(SuperpositionError):
    """The superposition does not exist, or is hidden from the caller."""

    code = 404


class SuperpositionConflict(SuperpositionError):
    """The superposition's state does not permit the request."""

    code = 409
    error_code = 'state-conflict'


class VolumeSuperposed(SuperpositionConflict):
    """The volume is in a superposition, which the operation would break."""

    error_code = 'volume-superposed'


class ServerSuperposed(VolumeSuperposed):
    """A volume of the server is in a superposition, which another volume would not be part of.

    Nova passes on this status alone, with the text.
    """

    code = 400


class VolumesNotEligible(SuperpositionConflict):
    """A volume cannot be superposed, for ``reasons``."""

    error_code = 'volume-not-eligible'


class SuperpositionUnavailable(SuperpositionError):
    """A volume service or its Ceph did not answer; the request may be repeated."""

    code = 503


class SuperpositionPending(SuperpositionError):
    """The request was accepted and continues; the superposition shows its progress."""

    code = 202
