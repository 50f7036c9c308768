# SPDX-License-Identifier: Apache-2.0
"""The boxes of this host: seal a server's ports, open them, and remove everything again."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
import copy
import pathlib
import threading
import time
from typing import Any

from nova import context as nova_context
from nova import objects
from nova.network import model as network_model
from oslo_config import cfg
from oslo_log import log as logging

from specreds_nova import conf
from specreds_nova import tasks
from specreds_nova.host.box import announce
from specreds_nova.host.box import bindings
from specreds_nova.host.box import dhcp
from specreds_nova.host.box import errors
from specreds_nova.host.box import ipv6
from specreds_nova.host.box import ovs
from specreds_nova.host.box import plan as box_plan
from specreds_nova.host.box import privileged
from specreds_nova.host.box import services

CONF = cfg.CONF
conf.register(CONF)
LOG = logging.getLogger(__name__)

# The ports of a server by id, as the network service shows them.
Ports = dict[str, Mapping[str, Any]]
# Timeout of the work for a box: network service, DHCP and metadata. In seconds.
TIMEOUT = 60.0
# A host may start dozens of backups at once; their work mostly waits for the network service.
_WORKERS = 32


class Background:
    """The work of each backup that may not have ended yet."""

    def __init__(self) -> None:
        self._workers = futures.ThreadPoolExecutor(_WORKERS, 'specreds-box')
        self._begun: dict[str, list[futures.Future[Any]]] = {}

    def start(self, backup_id: str, work: Callable[..., Any],
              *arguments: Any) -> futures.Future[Any]:
        """Start work in the background, for which :meth:`wait` waits."""
        begun = self._workers.submit(work, *arguments)
        self._begun.setdefault(backup_id, []).append(begun)
        return begun

    def wait(self, backup_id: str) -> None:
        """Wait until the work for a backup is done, and raise its first error.

        After an error, other work may go on: :meth:`end` waits for it.
        """
        for work in self._begun.get(backup_id, []):
            work.result(timeout=TIMEOUT)
        self._begun.pop(backup_id, None)

    def end(self, backup_id: str) -> None:
        """Cancel the work for a backup, and wait until what has begun has ended."""
        begun = self._begun.pop(backup_id, [])
        for work in begun:
            work.cancel()
        futures.wait(begun, timeout=TIMEOUT)


class Box:
    """The boxes of this host. A backup has one box, of all its ports."""

    def __init__(self) -> None:
        privileged.prepare()
        if (missing := dhcp.missing()) is not None:
            LOG.error('servers whose networks have DHCP cannot have backups here: %s', missing)
        self._ipv6_served = _serves_ipv6()
        self._host: str = CONF.host
        self._plans = box_plan.PlanStore(
            pathlib.Path(CONF.state_path, 'specreds', 'boxes'))
        self._mechanism = ovs.Ovs(self._host)
        self._bindings = self._mechanism.bindings
        self._background = Background()
        # By backup: the look at its ports in the network service.
        self._looks: dict[str, futures.Future[Ports]] = {}
        self._services = services.Services(self._mechanism, self._plans)
        # Backups whose boxes this process has opened: a request to shut one of them is based on
        # older knowledge.
        self._opened: set[str] = set()
        self._deciding = threading.Lock()

    def warm_up_helpers(self) -> None:
        """Start the processes that change the switch and the guests' devices."""
        privileged.warm_up()
        self._mechanism.warm_up()

    def warm_up_network(self, context: Any) -> None:
        """Get a token and find the network service, before the first backup needs them."""
        self._bindings.warm_up(context)

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

    def seal(self, context: Any, instance: Any, backup_id: str) -> network_model.NetworkInfo:
        """Make the box, shut. Idempotent.

        Port bindings, DHCP and metadata are set up in the background; :meth:`attached` waits for
        them.

        :returns: the server's network as it is inside the box, without ports that Nova still
            knows, and the network service does not
        :raises errors.BoxRefused: this host cannot make a box for the server
        :raises errors.BoxFailed: the box could not be made; :meth:`remove` its parts
        """
        vifs = {vif['id']: copy.deepcopy(vif) for vif in instance.get_network_info()}
        self._refuse(instance, self.refusals(instance))
        plans = [box_plan.from_vif(vif, instance.uuid, backup_id, ipv6_served=self._ipv6_served)
                 for vif in vifs.values()]
        self._looks[backup_id] = looking = self._background.start(
            backup_id, self._look, context, instance, plans)
        for plan in plans:
            self._plans.save(plan)
            self._mechanism.seal(plan)
        # If the look has failed, admitted() reports that.
        if looking.exception(timeout=TIMEOUT) is None:
            plans = self._shown(plans, looking.result())
        vifs = {plan.port: vifs[plan.port] for plan in plans}
        self._background.start(backup_id, self._bind_ports, context, instance, plans, looking)
        for vif, plan in zip(vifs.values(), plans, strict=True):
            self._background.start(backup_id, self._services.start, context,
                                   vif['network']['id'], plan, instance)
            box_plan.plug_into_box(vif, plan)
        return network_model.NetworkInfo(vifs.values())

    def admitted(self, backup_id: str) -> None:
        """Wait until the network service has shown the ports, before the guest is started.

        :raises errors.BoxRefused: the ports cannot be in a box on this host
        """
        looking = self._looks.pop(backup_id, None)
        if looking is not None:
            looking.result(timeout=TIMEOUT)

    def attached(self, instance: Any, backup_id: str) -> None:
        """Check that the running guest is in its box, and wait for the box's services.

        :param instance: the server, with the places of its tagged devices in the guest's domain
        :raises errors.BoxRefused: the network service does not admit the server here
        :raises errors.BoxFailed: the guest is not in its box; nothing has been let through
        """
        for plan in self._plans.of(backup_id):
            self._mechanism.attached(plan)
        self._background.wait(backup_id)
        for plan in self._plans.of(backup_id):
            self._services.complete(plan, instance)

    def open(self, context: Any, instance: Any, backup_id: str) -> dict[str, int]:
        """Open the box: the switch, and the network service meanwhile. Idempotent.

        :returns: time of each step since the beginning, in ms
        :raises errors.BoxNotFound: this host has no such box
        :raises errors.BoxFailed: a step failed; open the box again
        """
        plans = self._plans.of(backup_id)
        if (not plans and instance is not None and instance.get_network_info()
                and self._bindings.ports(context, instance.uuid)):
            raise errors.BoxNotFound(backup_id=backup_id)
        begun = time.monotonic()
        ports = [plan.port for plan in plans]
        with futures.ThreadPoolExecutor(1, 'activation') as executor:
            # OVN lets nothing through before it; neither needs the other one.
            activation = executor.submit(self._bindings.activate, context, ports)
            with self._deciding:
                self._opened.add(backup_id)
                for plan in plans:
                    self._mechanism.open(plan)
            timings = {'box_open': _elapsed(begun)}
            threading.Thread(target=announce.repeat, args=(self._mechanism.announce, plans),
                             daemon=True).start()
            activation.result()
        self._bindings.delete_other_bindings(context, ports)
        timings['bindings'] = _elapsed(begun)
        for plan in plans:
            self._mechanism.settle(plan)
            privileged.stop_services(plan.port)
        timings['box_settled'] = _elapsed(begun)
        return timings

    def adopted(self, context: Any, backup_id: str) -> None:
        """Delete the ports' bindings on the primary's host. Idempotent."""
        self._bindings.delete_other_bindings(
            context, [plan.port for plan in self._plans.of(backup_id)])

    def remove(self, context: Any, backup_id: str) -> None:
        """Remove the box of a backup that is not promoted. Idempotent.

        :raises errors.BoxNotRemoved: the network service still has its part, or os-vif the
            guest's device; the rest is gone
        """
        self._looks.pop(backup_id, None)
        self._background.end(backup_id)
        ports = self._ports(backup_id)
        unplugged = [self._unplug(port) for port in ports]
        for port in ports:
            self._remove_local(port)
        # The plans are deleted last: a second attempt starts from them.
        try:
            self._bindings.remove(context, ports)
            for failure in unplugged:
                if failure is not None:
                    raise failure
        except Exception as exc:
            raise errors.BoxNotRemoved(backup_id=backup_id, host=self._host,
                                       reason=str(exc)) from exc
        for port in ports:
            self._plans.forget(port)

    def reconcile(self, shut: Iterable[str], opened: Iterable[str],
                  unsure: Iterable[str] = ()) -> None:
        """Bring the boxes of this host into their states, after a restart of any program.

        :param shut: backups that run here and are not promoted
        :param opened: backups that are promoted; their boxes may be open or shut
        :param unsure: backups of which neither is known: their boxes are left unchanged
        """
        shut, opened = set(shut), set(opened)
        boxes = self._mechanism.existing()
        for box in boxes:
            plan = self._plans.get(box.port)
            if box.backup_id in shut:
                with self._deciding:
                    self._restore(box, plan)
            elif box.backup_id in opened and box.state is ovs.State.SHUT and plan:
                self._mechanism.open(plan)
                self._mechanism.settle(plan)
                privileged.stop_services(plan.port)
        # An open box of a backup without a record belongs to a server that was adopted.
        carrying = {box.backup_id for box in boxes if box.state is ovs.State.OPEN}
        there = {box.backup_id for box in boxes} | {plan.backup_id for plan in self._plans.all()}
        for backup_id in there - carrying - shut - opened - set(unsure):
            LOG.warning('removing the box of backup %s, which is unknown on this host', backup_id)
            try:
                self.remove(nova_context.get_admin_context(), backup_id)
            except errors.BoxNotRemoved as exc:
                LOG.warning('%s', exc)

    def through(self, network_info: Any) -> Any:
        """Return a network with the bridges that the ports are in on this host.

        The guest of an adopted server stays behind its open box until it is unplugged.
        """
        if not any(self._plans.get(vif['id']) for vif in network_info):
            return network_info
        adjusted = copy.deepcopy(list(network_info))
        for vif in adjusted:
            if plan := self._plans.get(vif['id']):
                box_plan.plug_into_box(vif, plan)
        return network_model.NetworkInfo(adjusted)

    def prepare_plug(self, port: str) -> None:
        """Prepare an open box for the device of a guest that is about to be started."""
        if plan := self._opened_plan(port):
            self._mechanism.release(plan)

    def prepare_replug(self, port: str) -> None:
        """Prepare an open box for the end of a device that will be replaced. Idempotent."""
        if plan := self._opened_plan(port):
            self._mechanism.conceal(plan)

    def unplugged(self, network_info: Any) -> bool:
        """Remove the open boxes of ports whose guest is gone. Idempotent.

        A shut box is a backup's, and is removed by :meth:`remove`.

        :returns: whether there were any
        """
        ended = [vif['id'] for vif in network_info if self._opened_plan(vif['id'])]
        for port in ended:
            self._remove_local(port)
            self._plans.forget(port)
        return bool(ended)

    def namespace(self, backup_id: str) -> str | None:
        """Return the network namespace from which the guest's first port can be reached."""
        plans = self._plans.of(backup_id)
        return plans[0].namespace if plans else None

    def accepts_connection(self, backup_id: str, tcp_port: int, timeout: float) -> bool:
        """Return whether the guest accepts a TCP connection from inside its box.

        IPv4 is tried first.

        :param timeout: seconds for each address
        """
        return any(privileged.accepts_connection(plan.port, address, tcp_port, timeout)
                   for plan in self._plans.of(backup_id)
                   for subnet in (*plan.ipv4, *plan.answered_ipv6)
                   for address in subnet.addresses)

    def has_sent(self, backup_id: str) -> bool:
        """Return whether the guest has sent a frame of its services since the first call.

        A guest that cannot be listened to has sent none.
        """
        sent = False
        for plan in self._plans.of(backup_id):
            try:
                sent = privileged.has_sent(plan.tap) or sent
            except OSError as exc:
                LOG.debug('port %s: %s', plan.port, exc)
        return sent

    def stop_listening(self, backup_id: str) -> None:
        """Listen to the guest no longer. Idempotent."""
        for plan in self._plans.of(backup_id):
            privileged.stop_listening(plan.tap)

    def _look(self, context: Any, instance: Any, plans: Sequence[box_plan.Plan]) -> Ports:
        """Return the ports as the network service shows them.

        :raises errors.BoxRefused: one of them cannot be in a box on this host
        """
        ports = self._bindings.ports(context, instance.uuid)
        self._refuse(instance, self._bindings.refusals(
            context, ports, [plan.port for plan in plans]))
        return ports

    def _shown(self, plans: list[box_plan.Plan], ports: Ports) -> list[box_plan.Plan]:
        """Return plans as the network service shows their ports, without those that are gone.

        Nova learns from the host of a server that a port was deleted, and not from a dead one.

        :param plans: of boxes that are made, in which there is no guest yet
        """
        shown = []
        for plan in plans:
            if plan.port in ports:
                shown.append(plan.shown(ports[plan.port]))
                self._plans.save(shown[-1])
                continue
            LOG.warning('port %s of server %s was deleted or detached: backup %s begins without '
                        'it', plan.port, plan.instance, plan.backup_id)
            self._remove_local(plan.port)
            self._plans.forget(plan.port)
        return shown

    def _bind_ports(self, context: Any, instance: Any, plans: Sequence[box_plan.Plan],
                    looking: futures.Future[Ports]) -> None:
        """Bind the ports to this host and prepare them in the network service.

        :raises errors.BoxRefused: the ports cannot be in a box on this host
        """
        # The look was started before, so that a thread is at work on it.
        ports = looking.result(timeout=TIMEOUT)
        wanted = [ports[plan.port] for plan in plans]
        bound = self._bindings.bind(context, wanted)
        self._refuse(instance, [self._mismatch(plan, bound[plan.port]) for plan in plans])
        # Nova sets a task before it moves a port: without one, it had not moved these ports when
        # they were read.
        self._refuse(instance, [_task(context, instance.uuid)])
        self._bindings.prepare(context, wanted)
        for plan in plans:
            self._services.add_neighbours(context, plan, ports[plan.port]['network_id'])

    def _mismatch(self, plan: box_plan.Plan, binding: bindings.Binding) -> str | None:
        """Return why a binding here does not fit a box made from the primary's binding."""
        return (plan.mismatch(binding.details, CONF.neutron.ovs_bridge)
                or self._mechanism.refusal(binding.vif_type, binding.vnic_type, binding.details))

    def _refuse(self, instance: Any, reasons: Sequence[str | None]) -> None:
        if refusals := [reason for reason in reasons if reason]:
            raise errors.BoxRefused(instance=instance.uuid, host=self._host,
                                    reason='; '.join(refusals))

    def _restore(self, box: ovs.ExistingBox, plan: box_plan.Plan | None) -> None:
        if box.backup_id in self._opened:
            return
        if box.state is ovs.State.OPEN:
            # A promotion is in the journal before it opens a box.
            LOG.error('the box of port %s is open, but backup %s is not promoted: shutting it',
                      box.port, box.backup_id)
        if plan is None:
            LOG.error('the box of port %s stays shut, without DHCP: its plan is lost', box.port)
            return
        if not box.intact or box.state is ovs.State.OPEN:
            self._mechanism.seal(plan)
        self._services.restore(plan)

    def _opened_plan(self, port: str) -> box_plan.Plan | None:
        """Return the plan of a port whose box is open; None if it has no such box."""
        plan = self._plans.get(port)
        if plan and any(box.port == port and box.state is ovs.State.OPEN
                        for box in self._mechanism.existing()):
            return plan
        return None

    def _unplug(self, port: str) -> Exception | None:
        """Unplug the device of a port whose guest is gone; return the failure, if it failed.

        If this fails, the box is removed all the same, and before anything else is done.
        """
        plan = self._plans.get(port)
        try:
            if plan is not None:
                self._mechanism.unplug(plan)
        except Exception as exc:
            return exc
        return None

    def _remove_local(self, port: str) -> None:
        self._mechanism.remove(port)
        privileged.stop_services(port)

    def _ports(self, backup_id: str) -> list[str]:
        ports = {box.port for box in self._mechanism.existing() if box.backup_id == backup_id}
        return sorted(ports | {plan.port for plan in self._plans.of(backup_id)})


def _task(context: Any, instance_uuid: str) -> str | None:
    """Return that Nova is at work on the server, if it is, and may move its ports."""
    task = objects.Instance.get_by_uuid(context, instance_uuid).task_state
    return None if task is None or tasks.is_reboot(task) else f'its task {task} is under way'


def _serves_ipv6() -> bool:
    """Return whether the boxes of this host answer over IPv6, and log why not."""
    if (missing := ipv6.missing()) is not None:
        LOG.warning('the boxes of backups answer over IPv4 only: %s', missing)
        return False
    return True


def _elapsed(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)
