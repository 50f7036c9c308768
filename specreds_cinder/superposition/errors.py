# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a superposition, each with the object it happened to."""

from collections.abc import Iterable


class SuperError(Exception):
    """Base of every error that this package raises on purpose."""


class InvalidInput(SuperError):
    """A value given by the caller is malformed or out of range."""


class ClusterError(SuperError):
    """Ceph answered a call with an error that the protocol has no use for."""


class ClusterTimeout(ClusterError):
    """Ceph did not answer in time. The call may still take effect later.

    The record says where to go on: repeat the step, or ``resume``.
    """


class NotEligible(SuperError):
    """A volume cannot be superposed.

    :param volume: the volume, as ``pool/image``
    :param reasons: every reason found, each a sentence that says what to do about it
    """

    def __init__(self, volume: str, reasons: Iterable[str]) -> None:
        self.volume = volume
        self.reasons = tuple(reasons)
        super().__init__(f'volume {volume} cannot be superposed: {"; ".join(self.reasons)}')


class VolumeGone(SuperError):
    """The RBD image of a volume does not exist (any more)."""


class AlreadySuperposed(SuperError):
    """A volume is in a superposition already.

    :param volume: the volume, as ``pool/image``
    :param superposition: the id of the superposition that holds it
    """

    def __init__(self, volume: str, superposition: str) -> None:
        self.volume = volume
        self.superposition = superposition
        super().__init__(
            f'volume {volume} is in superposition {superposition} already: '
            f'collapse that one first')


class NotSuperposed(SuperError):
    """There is no superposition by that id, or the volume is in none."""


class Conflict(SuperError):
    """The superposition is in a state that does not allow the step.

    :param message: what was refused, and why
    :param state: the state the record is in now
    """

    def __init__(self, message: str, state: str | None = None) -> None:
        self.state = state
        super().__init__(message)


class RecordChanged(Conflict):
    """Another controller changed the record in between: a compare-and-swap lost."""


class OverlayBusy(SuperError):
    """An overlay is still open somewhere, so it can neither be merged offline nor removed."""


class BackupError(SuperError):
    """The backup's QEMU did not do what collapse or merge asked of it."""


class MergeFailed(SuperError):
    """The overlay could not be written down into the volume. Repeating the merge is safe."""
