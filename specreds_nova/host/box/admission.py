# SPDX-License-Identifier: Apache-2.0
"""Whether a server's ports can be in a box on this host: Nova's and the network service's word."""

from collections.abc import Mapping, Sequence
from concurrent import futures
from typing import Any

from nova import objects
from oslo_config import cfg

from specreds_nova import tasks
from specreds_nova.host.box import background
from specreds_nova.host.box import base
from specreds_nova.host.box import errors
from specreds_nova.host.box import plan as box_plan

# The server's ports by id, as the network service shows them.
Ports = dict[str, Mapping[str, Any]]


class Admission:
    """Admits servers to the boxes of this host, and binds their ports to it."""

    def __init__(self, mechanism: base.Mechanism, host: str, work: background.Background) -> None:
        self._mechanism = mechanism
        self._bindings = mechanism.bindings
        self._host = host
        self._background = work
        self._looks: dict[str, futures.Future[Ports]] = {}

    def reasons(self, context: Any, instance: Any) -> list[str]:
        """Return why the network service does not let the server be sealed here."""
        ports = self._bindings.ports(context, instance.uuid)
        return self._bindings.refusals(
            context, ports, [vif['id'] for vif in instance.get_network_info()])

    def refusals(self, instance: Any) -> list[str]:
        """Return why ports of the server cannot have boxes, by their bindings that Nova knows."""
        reasons = ((vif['id'], self._mechanism.refusal(vif['type'], vif['vnic_type'],
                                                       vif['details'] or {}))
                   for vif in instance.get_network_info())
        return [f'port {port}: {reason}' for port, reason in reasons if reason]

    def check(self, instance: Any) -> None:
        """Check the bindings that Nova knows.

        :raises errors.BoxRefused: a port of the server cannot have a box
        """
        self._refuse(instance, self.refusals(instance))

    def begin(self, context: Any, instance: Any, backup_id: str,
              plans: Sequence[box_plan.Plan]) -> futures.Future[Ports]:
        """Start to read the ports in the background; :meth:`wait` waits for the result."""
        self._looks[backup_id] = looking = self._background.start(
            backup_id, self._look, context, instance, plans)
        return looking

    @staticmethod
    def ports(looking: futures.Future[Ports]) -> Ports | None:
        """Return the ports that the network service shows.

        :param looking: from :meth:`begin`
        :returns: them; None if the look has failed, which :meth:`wait` reports
        """
        if looking.exception(timeout=background.TIMEOUT) is not None:
            return None
        return looking.result()

    def wait(self, backup_id: str) -> None:
        """Wait until the network service has shown the ports.

        :raises errors.BoxRefused: the ports cannot be in a box on this host
        """
        looking = self._looks.pop(backup_id, None)
        if looking is not None:
            looking.result(timeout=background.TIMEOUT)

    def forget(self, backup_id: str) -> None:
        """Forget a backup that is removed."""
        self._looks.pop(backup_id, None)

    def bind(self, context: Any, instance: Any, plans: Sequence[box_plan.Plan],
             looking: futures.Future[Ports]) -> Ports:
        """Bind the ports to this host and prepare them in the network service.

        :param looking: from :meth:`begin`
        :raises errors.BoxRefused: the ports cannot be in a box on this host
        """
        # The look was started before, so that a thread is at work on it.
        ports = looking.result(timeout=background.TIMEOUT)
        wanted = [ports[plan.port] for plan in plans]
        bound = self._bindings.bind(context, wanted)
        self._refuse(instance, [self._mismatch(plan, bound[plan.port]) for plan in plans])
        # Nova sets a task before it moves a port: without one, it had not moved these ports when
        # they were read.
        self._refuse(instance, [_task(context, instance.uuid)])
        self._bindings.prepare(context, wanted)
        return ports

    def _look(self, context: Any, instance: Any, plans: Sequence[box_plan.Plan]) -> Ports:
        """Return the ports as the network service shows them.

        :raises errors.BoxRefused: one of them cannot be in a box on this host
        """
        ports = self._bindings.ports(context, instance.uuid)
        self._refuse(instance, self._bindings.refusals(
            context, ports, [plan.port for plan in plans]))
        return ports

    def _mismatch(self, plan: box_plan.Plan, binding: base.Binding) -> str | None:
        """Return why a binding here does not fit a box made from the primary's binding."""
        return (plan.mismatch(binding.details, cfg.CONF.neutron.ovs_bridge)
                or self._mechanism.refusal(binding.vif_type, binding.vnic_type, binding.details))

    def _refuse(self, instance: Any, reasons: Sequence[str | None]) -> None:
        if refusals := [reason for reason in reasons if reason]:
            raise errors.BoxRefused(instance=instance.uuid, host=self._host,
                                    reason='; '.join(refusals))


def _task(context: Any, instance_uuid: str) -> str | None:
    """Return that Nova is at work on the server, if it is, and may move its ports."""
    task = objects.Instance.get_by_uuid(context, instance_uuid).task_state
    return None if task is None or tasks.is_reboot(task) else f'its task {task} is under way'
