# SPDX-License-Identifier: Apache-2.0
"""Interface of the network mechanisms that can hold a box."""

import abc
from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import enum
from typing import Any

from specreds_nova.host.box import plan as box_plan


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


@dataclasses.dataclass(frozen=True)
class Binding:
    """A port's binding on this host.

    :param active: it is the binding in force
    """

    port: str
    vif_type: str
    vnic_type: str
    details: Mapping[str, Any]
    profile: Mapping[str, Any]
    active: bool


class Bindings(abc.ABC):
    """The network service's part of the boxes of a host.

    The service may move a port to another host in a way of its own for each mechanism.
    """

    @abc.abstractmethod
    def warm_up(self, context: Any) -> None:
        """Get a token and find the network service."""

    @abc.abstractmethod
    def ports(self, context: Any, instance_uuid: str) -> dict[str, Mapping[str, Any]]:
        """Return the server's ports by id, as the network service shows them."""

    @abc.abstractmethod
    def refusals(self, context: Any, ports: Mapping[str, Mapping[str, Any]],
                 wanted: Iterable[str]) -> list[str]:
        """Return why ports of the server cannot be in a box here.

        :param ports: the server's ports by id, from :meth:`ports`
        """

    @abc.abstractmethod
    def bind(self, context: Any, ports: Iterable[Mapping[str, Any]]) -> dict[str, Binding]:
        """Make an inactive binding for each port. Idempotent.

        :raises errors.BoxFailed: the network service refused
        """

    @abc.abstractmethod
    def prepare(self, context: Any, ports: Sequence[Mapping[str, Any]]) -> bool:
        """Make this host wire the ports before they are activated. Idempotent.

        :returns: False if at least one of the ports is wired only after the activation
        """

    @abc.abstractmethod
    def neighbours(self, context: Any, network: str, addresses: Iterable[str]) -> dict[str, str]:
        """Return the hardware addresses of those IP addresses that ports of the network have."""

    @abc.abstractmethod
    def metadata_hops(self, context: Any, network: str) -> dict[str, str]:
        """Return the addresses of OVN's metadata agents on a network: routes lead there.

        :returns: IP address to hardware address
        """

    @abc.abstractmethod
    def activate(self, context: Any, ports: Iterable[str]) -> None:
        """Move the ports to this host. Idempotent.

        :raises errors.BoxFailed: the network service refused
        """

    @abc.abstractmethod
    def delete_other_bindings(self, context: Any, ports: Iterable[str]) -> None:
        """Delete the bindings that ports of this host still have on other hosts. Idempotent."""

    @abc.abstractmethod
    def remove(self, context: Any, ports: Iterable[str]) -> None:
        """Delete the ports' inactive bindings here, and undo their preparation. Idempotent.

        :raises errors.BoxFailed: something is left, try again
        """


class Mechanism(abc.ABC):
    """Isolates a guest's port from the network, and connects it.

    :ivar bindings: the network service's part

    Every step fails shut: a mechanism lets nothing through before :meth:`open`, whatever crashes
    before it.
    """

    bindings: Bindings

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
    def conceal(self, plan: box_plan.Plan) -> None:
        """Hide from the network service that the guest's device is removed. Idempotent."""

    @abc.abstractmethod
    def release(self, plan: box_plan.Plan) -> None:
        """Remove the device of a guest that does not run. Idempotent."""

    @abc.abstractmethod
    def announce(self, plan: box_plan.Plan) -> None:
        """Announce the guest of an open box again."""

    @abc.abstractmethod
    def unplug(self, plan: box_plan.Plan) -> None:
        """Remove what was made for the guest's device, whose guest is gone. Idempotent.

        :raises Exception: something is left
        """

    @abc.abstractmethod
    def remove(self, port: str) -> None:
        """Remove the port's box, shut or open. Idempotent."""

    @abc.abstractmethod
    def existing(self) -> list[ExistingBox]:
        """Return the boxes of this host."""
