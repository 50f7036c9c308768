# SPDX-License-Identifier: Apache-2.0
"""Interface of the network mechanisms that can hold a box."""

import abc
from collections.abc import Mapping
import dataclasses
import enum
from typing import Any

from specreds_nova.virt.box import plan as box_plan


class State(enum.StrEnum):
    """What a box lets through. A box of which nothing is known counts as ``SHUT``."""

    SHUT = 'shut'
    OPEN = 'open'


@dataclasses.dataclass(frozen=True)
class ExistingBox:
    """A box that exists on this host, as its mechanism stores it.

    :param intact: it lets through what its state says; if not, it lets through less
    """

    port: str
    backup_id: str
    instance: str
    state: State
    intact: bool


class Mechanism(abc.ABC):
    """Isolates a guest's port from the network, and connects it.

    Every step fails shut: a mechanism lets nothing through before :meth:`open`, whatever crashes
    before it.
    """

    @abc.abstractmethod
    def warm_up(self) -> None:
        """Start what the first box would otherwise wait for."""

    @abc.abstractmethod
    def refusal(self, vif_type: str, vnic_type: str, details: Mapping[str, Any]) -> str | None:
        """Return why a port with this binding cannot have a box, or None."""

    @abc.abstractmethod
    def seal(self, plan: box_plan.Plan) -> None:
        """Make the port's box, shut. Idempotent.

        :raises errors.BoxFailed: it could not be made; the part that exists is shut
        """

    @abc.abstractmethod
    def serve(self, plan: box_plan.Plan) -> None:
        """Connect the device that leads to DHCP and metadata, which was just made.

        :raises errors.BoxFailed: it could not be connected
        """

    @abc.abstractmethod
    def attached(self, plan: box_plan.Plan) -> None:
        """Check that the guest's device is in the box and nowhere else.

        :raises errors.BoxFailed: it is not
        """

    @abc.abstractmethod
    def open(self, plan: box_plan.Plan) -> None:
        """Connect guest and network, and announce the guest, atomically. Idempotent.

        :raises errors.BoxFailed: the box is still shut
        """

    @abc.abstractmethod
    def settle(self, plan: box_plan.Plan) -> None:
        """Make an open box independent of this service. Idempotent."""

    @abc.abstractmethod
    def release(self, plan: box_plan.Plan) -> None:
        """Remove the device of a guest that does not run. Idempotent."""

    @abc.abstractmethod
    def announce(self, plan: box_plan.Plan) -> None:
        """Announce the guest of an open box again."""

    @abc.abstractmethod
    def remove(self, port: str) -> None:
        """Remove the port's box, shut or open. Idempotent."""

    @abc.abstractmethod
    def existing(self) -> list[ExistingBox]:
        """Return the boxes of this host."""
