# SPDX-License-Identifier: Apache-2.0
"""What a network mechanism must be able to do to hold a box."""
import abc
from collections.abc import Mapping
import dataclasses
import enum
from typing import Any

from specreds_nova.virt.box import plan as box_plan


class State(enum.StrEnum):
    """What a box lets through. ``SHUT`` is also what a box is that nothing is known of."""

    SHUT = 'shut'
    OPEN = 'open'


@dataclasses.dataclass(frozen=True)
class Found:
    """A box that is on this host, as its mechanism remembers it.

    :param intact: whether it still lets through what its state says; never more than that
    """

    port: str
    recovery: str
    instance: str
    state: State
    intact: bool


class Mechanism(abc.ABC):
    """Holds a guest's port apart from the network, and lets it in.

    Shut is the default of every step: a mechanism lets nothing through before :meth:`open`, nor
    after a crash of anything at any moment before it.
    """

    @abc.abstractmethod
    def warm_up(self) -> None:
        """Have running what the first box would otherwise wait for."""

    @abc.abstractmethod
    def refusal(self, vif_type: str, vnic_type: str, details: Mapping[str, Any]) -> str | None:
        """:returns: why a port with this binding cannot be held, or None"""

    @abc.abstractmethod
    def seal(self, plan: box_plan.Plan) -> None:
        """Make the port's box, shut. Idempotent.

        :raises errors.BoxFailed: it could not be made; what is there of it is shut
        """

    @abc.abstractmethod
    def serve(self, plan: box_plan.Plan) -> None:
        """Connect the device that leads to DHCP and metadata, which has just been made.

        :raises errors.BoxFailed: it could not be connected
        """

    @abc.abstractmethod
    def attached(self, plan: box_plan.Plan) -> None:
        """Make sure that the guest's device is in the box and nowhere else.

        :raises errors.BoxFailed: it is not
        """

    @abc.abstractmethod
    def open(self, plan: box_plan.Plan) -> None:
        """Connect guest and network, and announce the guest, at once. Idempotent.

        :raises errors.BoxFailed: it is still shut
        """

    @abc.abstractmethod
    def settle(self, plan: box_plan.Plan) -> None:
        """Make an open box independent of this service. Idempotent."""

    @abc.abstractmethod
    def release(self, plan: box_plan.Plan) -> None:
        """Let go of the device of a guest that does not run. Idempotent."""

    @abc.abstractmethod
    def announce(self, plan: box_plan.Plan) -> None:
        """Announce the guest of an open box once more."""

    @abc.abstractmethod
    def remove(self, port: str) -> None:
        """Remove the port's box, shut or open. Idempotent."""

    @abc.abstractmethod
    def found(self) -> list[Found]:
        """:returns: the boxes of this host"""
