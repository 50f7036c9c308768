# SPDX-License-Identifier: Apache-2.0
"""Errors of the engine; each message says what failed, on which object, and what to do."""


class EngineError(Exception):
    """Base of the errors of the engine."""


class Unreachable(EngineError):
    """A service does not answer: it may have done what was requested, or not."""


class Unanswered(Unreachable):
    """A service has not answered a request in time, and may do later what was requested."""


class Refused(EngineError):
    """A service refuses a request."""


class Merging(Refused):
    """The volumes of a server hold data of an earlier backup that are not merged yet.

    :param promoted_by: the recovery of that backup, if no merge has begun: the backup may serve
    """

    def __init__(self, message: str, promoted_by: str | None = None) -> None:
        super().__init__(message)
        self.promoted_by = promoted_by


class Superseded(EngineError):
    """Another engine has taken over a recovery; this one must not continue it."""


class Ended(Superseded):
    """A recovery has ended: its record is final, and no engine has to continue it."""


class NotFound(EngineError):
    """A requested object does not exist."""


class Invalid(EngineError):
    """A request or a configuration is invalid."""


class Interrupted(Exception):
    """The engine is being stopped; another engine continues the recovery."""


class RetryAttempt(Exception):
    """An attempt of a recovery is over, and nothing is left of it: the next one begins anew."""
