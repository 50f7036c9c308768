# SPDX-License-Identifier: Apache-2.0
"""What the volume service answers when a superposition cannot do what was asked.

Each is an ``Invalid`` of Cinder's, whose API turns these into faults with their own code and text.
"""

from cinder import exception


class SuperpositionError(exception.Invalid):
    """Base of what goes wrong with superpositions; also what was not foreseen.

    :param state: the superposition's state, where it matters
    :param reasons: why a volume cannot be superposed
    """

    code = 500
    message = '%(reason)s'

    def __init__(self, reason: str, *, state: str | None = None,
                 reasons: tuple[str, ...] = ()) -> None:
        self.state = state
        self.reasons = tuple(reasons)
        super().__init__(reason=reason)


class SuperpositionInvalid(SuperpositionError):
    """What was asked makes no sense, whatever the state."""

    code = 400


class SuperpositionNotFound(SuperpositionError):
    """There is no such superposition, or the caller may not know of it."""

    code = 404


class SuperpositionConflict(SuperpositionError):
    """The superposition's state does not allow it."""

    code = 409


class VolumeSuperposed(SuperpositionConflict):
    """The volume is in a superposition, which the operation would break."""


class VolumesNotEligible(SuperpositionConflict):
    """A volume cannot be superposed, for ``reasons``."""


class SuperpositionUnavailable(SuperpositionError):
    """A volume service or its Ceph did not answer; nothing is lost, ask again."""

    code = 503


class SuperpositionPending(SuperpositionError):
    """It has been begun and goes on; look at the superposition again."""

    code = 202
