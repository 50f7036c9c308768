# SPDX-License-Identifier: Apache-2.0
"""What a shut box answers its guest in place of the network.

That is ARP and neighbour discovery, router advertisements, DHCP and metadata.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import pathlib
import threading
from typing import Any

from oslo_concurrency import processutils
from oslo_log import log as logging

from specreds_nova.host.box import dhcp
from specreds_nova.host.box import errors
from specreds_nova.host.box import ipv6
from specreds_nova.host.box import metadata
from specreds_nova.host.box import ovs
from specreds_nova.host.box import plan as box_plan
from specreds_nova.host.box import privileged

LOG = logging.getLogger(__name__)

_METADATA = 'metadata.json'


class Services:
    """The services of the boxes of this host.

    :param plans: the plans of the boxes, to which addresses of the network are added
    """

    def __init__(self, mechanism: ovs.Ovs, plans: box_plan.PlanStore) -> None:
        self._mechanism = mechanism
        self._bindings = mechanism.bindings
        self._plans = plans
        self._extending = threading.Lock()
        # Ports whose metadata are not served yet.
        self._waiting: set[str] = set()

    def start(self, context: Any, network: str, plan: box_plan.Plan, instance: Any) -> None:
        """Start DHCP and metadata.

        :raises errors.BoxFailed: the DHCP server could not be started
        """
        if not (plan.ipv4 or plan.answered_ipv6):
            return
        plan = self._find_router(context, network, plan)
        if plan.ovn and (hops := self._bindings.metadata_hops(context, network)):
            plan = self._extend(plan, hops, hops)
        self._start_dhcp(plan)
        if instance.device_metadata is None:
            self._start_metadata(plan, instance)
        else:
            # They are complete when the guest's domain exists.
            self._waiting.add(plan.port)

    def complete(self, plan: box_plan.Plan, instance: Any) -> None:
        """Start what has waited for the guest's domain.

        :param instance: the server, with the places of its tagged devices in that domain
        """
        if plan.port in self._waiting:
            self._waiting.discard(plan.port)
            self._start_metadata(plan, instance)

    def _start_metadata(self, plan: box_plan.Plan, instance: Any) -> None:
        path = self._plans.path(plan.port, _METADATA)
        try:
            metadata.write(instance, path)
            self._start_responder(plan, path)
        except Exception:
            # Guests read metadata at their first boot, and this is a later one.
            LOG.exception('the box of port %s has no metadata service', plan.port)

    def restore(self, plan: box_plan.Plan) -> None:
        """Start DHCP and metadata again if one of them has ended."""
        if not (plan.ipv4 or plan.answered_ipv6):
            return
        path = self._plans.path(plan.port, _METADATA)
        wanted = dhcp.needed(plan) + path.exists()
        if len(privileged.namespace_runs(plan.port)) < wanted:
            self._start_dhcp(plan)
            if path.exists():
                self._start_responder(plan, path)

    def add_neighbours(self, context: Any, plan: box_plan.Plan, network: str) -> None:
        """Make the box answer with the hardware addresses that the guest will find outside."""
        addresses = set(plan.answered) - {box_plan.METADATA_ADDRESS} | {
            address for subnet in plan.answered_ipv6
            for address in (subnet.dhcp_server, subnet.gateway) if address}
        neighbours = self._bindings.neighbours(context, network, addresses)
        if neighbours:
            self._extend(plan, neighbours)

    def _find_router(self, context: Any, network: str, plan: box_plan.Plan) -> box_plan.Plan:
        """Return the plan with the link-local address of the network's router, if that is found.

        The box's services have it from the beginning.
        """
        gateways = {subnet.gateway for subnet in plan.answered_ipv6 if subnet.gateway}
        if not gateways:
            return plan
        neighbours = self._bindings.neighbours(context, network, gateways)
        extended = dataclasses.replace(plan, neighbours={**plan.neighbours, **neighbours})
        router = ipv6.known_router(extended)
        return self._extend(plan, neighbours, router=router) if router else plan

    def _extend(self, plan: box_plan.Plan, neighbours: Mapping[str, str],
                metadata_hops: Iterable[str] = (), router: str | None = None) -> box_plan.Plan:
        """Add addresses of the network to the plan of a box, and apply the plan."""
        with self._extending:
            plan = self._plans.get(plan.port) or plan
            plan = dataclasses.replace(
                plan, neighbours={**plan.neighbours, **neighbours},
                metadata_hops=tuple(dict.fromkeys((*plan.metadata_hops, *metadata_hops))),
                router=router or plan.router)
            self._plans.save(plan)
            self._mechanism.seal(plan)
            return plan

    def _start_responder(self, plan: box_plan.Plan, path: pathlib.Path) -> None:
        over_ipv6 = (True,) if plan.answered_ipv6 else ()
        privileged.start_responder(plan.port, str(path), *over_ipv6)

    def _start_dhcp(self, plan: box_plan.Plan) -> None:
        try:
            try:
                privileged.start_services(plan.to_json())
            except processutils.ProcessExecutionError as exc:
                if not plan.dhcp_options:
                    raise
                known = dhcp.with_known_options(plan, privileged.INSIDE)
                LOG.warning('the box of port %s begins with %d of the %d DHCP options of its '
                            'owner: %s', plan.port, len(known.dhcp_options),
                            len(plan.dhcp_options), exc)
                privileged.start_services(known.to_json())
        except (OSError, processutils.ProcessExecutionError) as exc:
            raise errors.BoxFailed(port=plan.port, reason=(
                f'its DHCP server could not be started: {exc}')) from exc
        self._mechanism.serve(plan)
