# SPDX-License-Identifier: Apache-2.0
"""What a shut box answers its guest in place of the network: ARP, DHCP and metadata."""

from collections.abc import Iterable, Mapping
import dataclasses
import threading
from typing import Any

from oslo_concurrency import processutils
from oslo_log import log as logging

from specreds_nova.virt.box import base
from specreds_nova.virt.box import errors
from specreds_nova.virt.box import metadata
from specreds_nova.virt.box import plan as box_plan
from specreds_nova.virt.box import plan_store
from specreds_nova.virt.box import privileged

LOG = logging.getLogger(__name__)

_METADATA = 'metadata.json'


class Services:
    """The services of the boxes of this host.

    :param plans: the plans of the boxes, to which addresses of the network are added
    """

    def __init__(self, mechanism: base.Mechanism, plans: plan_store.PlanStore) -> None:
        self._mechanism = mechanism
        self._bindings = mechanism.bindings
        self._plans = plans
        self._extending = threading.Lock()

    def start(self, context: Any, network: str, plan: box_plan.Plan, instance: Any) -> None:
        """Start DHCP and metadata.

        :raises errors.BoxFailed: the DHCP server could not be started
        """
        if not plan.ipv4:
            return
        if plan.ovn and (hops := self._bindings.metadata_hops(context, network)):
            plan = self._extend(plan, hops, hops)
        self._start_dhcp(plan)
        path = self._plans.path(plan.port, _METADATA)
        try:
            metadata.write(instance, path)
            privileged.start_responder(plan.port, str(path))
        except Exception:
            # Guests read metadata at their first boot, and this is a later one.
            LOG.exception('the box of port %s has no metadata service', plan.port)

    def restore(self, plan: box_plan.Plan) -> None:
        """Start DHCP and metadata again if one of them has ended."""
        if not plan.ipv4:
            return
        path = self._plans.path(plan.port, _METADATA)
        wanted = any(subnet.dhcp for subnet in plan.ipv4) + path.exists()
        if len(privileged.namespace_runs(plan.port)) < wanted:
            self._start_dhcp(plan)
            if path.exists():
                privileged.start_responder(plan.port, str(path))

    def add_neighbours(self, context: Any, plan: box_plan.Plan, network: str) -> None:
        """Make the box answer ARP with the addresses that the guest will find outside."""
        addresses = set(plan.answered) - {box_plan.METADATA_ADDRESS}
        neighbours = self._bindings.neighbours(context, network, addresses)
        if neighbours:
            self._extend(plan, neighbours)

    def _extend(self, plan: box_plan.Plan, neighbours: Mapping[str, str],
                metadata_hops: Iterable[str] = ()) -> box_plan.Plan:
        """Add addresses of the network to the plan of a box, and apply the plan."""
        with self._extending:
            plan = self._plans.get(plan.port) or plan
            plan = dataclasses.replace(
                plan, neighbours={**plan.neighbours, **neighbours},
                metadata_hops=tuple(dict.fromkeys((*plan.metadata_hops, *metadata_hops))))
            self._plans.save(plan)
            self._mechanism.seal(plan)
            return plan

    def _start_dhcp(self, plan: box_plan.Plan) -> None:
        try:
            privileged.start_services(plan.to_json())
        except (OSError, processutils.ProcessExecutionError) as exc:
            raise errors.BoxFailed(port=plan.port, reason=(
                f'its DHCP server could not be started: {exc}')) from exc
        self._mechanism.serve(plan)
