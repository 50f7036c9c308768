# SPDX-License-Identifier: Apache-2.0
"""Errors of superpositions, each of which names its object."""

from collections.abc import Iterable


def named(clients: Iterable[str]) -> str:
    """Return the addresses of clients as messages name them, always in the same order."""
    return ', '.join(sorted(clients))


class SuperError(Exception):
    """Base of the errors that this package raises."""


class InvalidInput(SuperError):
    """A value of the caller is malformed or out of range."""


class ClusterError(SuperError):
    """Ceph answered a call with an error from which the protocol cannot continue."""


class ClusterTimeout(ClusterError):
    """Ceph did not answer in time. The call may still take effect later.

    The record shows how far the step came: repeat the step, or ``resume``.
    """


class NotAllowed(ClusterError):
    """Ceph refuses a command to this user. The command has no effect."""


class Rebuilding(ClusterTimeout):
    """The object map of a volume is being rebuilt by the volume's client."""


class UnreadableObject(ClusterError):
    """An object in Ceph is damaged, or was written by a newer release."""


class PoolGone(UnreadableObject):
    """The pool of an object does not exist, or has another name."""


class NotEligible(SuperError):
    """A volume cannot be superposed.

    :param volume: the volume, as ``pool/image``
    :param reasons: every reason against it, each with what to do about it
    """

    def __init__(self, volume: str, reasons: Iterable[str]) -> None:
        self.volume = volume
        self.reasons = tuple(reasons)
        super().__init__(f'volume {volume} cannot be superposed: {"; ".join(self.reasons)}')


class VolumeGone(SuperError):
    """The RBD image of a volume does not exist, or was removed."""


class AlreadySuperposed(SuperError):
    """A volume is in a superposition already.

    :param volume: the volume, as ``pool/image``
    :param superposition: id of the superposition that holds the volume
    """

    def __init__(self, volume: str, superposition: str) -> None:
        self.volume = volume
        self.superposition = superposition
        super().__init__(
            f'volume {volume} is in superposition {superposition} already: '
            f'collapse that one first')


class ClientsUnknown(SuperError):
    """The clients of a host cannot be told from clients of other hosts."""


class NotSuperposed(SuperError):
    """No superposition has that id, or the volume is in no superposition."""


class Conflict(SuperError):
    """The superposition is in a state that does not allow the step.

    :param message: the refused step, and the reason
    :param state: the state of the record
    """

    def __init__(self, message: str, state: str | None = None) -> None:
        self.state = state
        super().__init__(message)


class RecordChanged(Conflict):
    """A compare-and-swap failed: another controller has changed the record."""


class OverlayBusy(SuperError):
    """A client has an overlay open, so the overlay can neither be merged offline nor removed.

    :param what: what the clients do, to which object
    :param clients: addresses of the clients that are in the way
    :param advice: what to do about them
    """

    def __init__(self, what: str, clients: Iterable[str], advice: str) -> None:
        self.clients = frozenset(clients)
        super().__init__(f'{what} at {named(self.clients)}: {advice}')


class BackupError(SuperError):
    """The QEMU of a backup failed in a step of a collapse or a merge."""


class MergeFailed(SuperError):
    """An overlay could not be merged into its volume. The merge may be repeated."""
