# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in the engine; each says what happened, to what, and what to do."""


class EngineError(Exception):
    """Base of the engine's own errors."""


class Unreachable(EngineError):
    """A service does not answer: what it was asked may have been done, or not."""


class Refused(EngineError):
    """A service answers that it does not do what it was asked."""


class Merging(Refused):
    """The volumes of a server hold what a former backup wrote, and are not merged yet."""


class Superseded(EngineError):
    """Another engine has taken a recovery over; this one must not go on with it."""


class Ended(Superseded):
    """A recovery has ended: nothing of it changes any more, nobody has to go on with it."""


class NotFound(EngineError):
    """There is no such thing."""


class Invalid(EngineError):
    """What was asked makes no sense."""


class Interrupted(Exception):
    """The engine is being stopped; another engine continues the recovery."""


class RetryAttempt(Exception):
    """An attempt of a recovery is over, and nothing is left of it: the next one begins anew."""
