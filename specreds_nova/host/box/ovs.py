# SPDX-License-Identifier: Apache-2.0
"""Boxes with Open vSwitch: a bridge for each port, between the guest and the integration bridge.

The bridge is made in one transaction with ``fail_mode=secure``: without flows it passes nothing,
and a restarted ovs-vswitchd has no flows. Its patch to the integration bridge has the external ids
that the network service's agent looks for, so the agent wires that end like any port, security
groups included. The guest's own device is not on the agent's bridge.

Where iptables implements security groups (``firewall_driver = iptables_hybrid``), os-vif connects
the guest's device to a Linux bridge, and that to the box instead of the integration bridge. The
agent's rules name the guest's device, and hold inside the box, too.

Where OVN wires ports, ovn-controller takes an interface on the integration bridge that has a
port's id for the port, if the port is bound to its host. The patch gets the id when the box opens,
and the guest's device never has it.

An open box is a wire, whatever number the guest's device has. ``fail_mode=standalone`` keeps it a
wire when ovs-vswitchd restarts, and also stores that the box is open.
"""

from collections.abc import Mapping
import dataclasses
import enum
import os
import pathlib
import time
from typing import Any

from nova.network import model as network_model
import os_vif
from os_vif.objects import instance_info as instance_objects
from os_vif.objects import network as network_objects
from os_vif.objects import vif as vif_objects
from oslo_concurrency import processutils
from oslo_config import cfg
from oslo_utils import uuidutils
from ovsdbapp import exceptions as ovsdb_exceptions
from vif_plug_ovs import linux_net
from vif_plug_ovs import privsep as vif_privsep
from vif_plug_ovs.ovsdb import ovsdb_lib

from specreds_nova.host.box import announce
from specreds_nova.host.box import bindings
from specreds_nova.host.box import errors
from specreds_nova.host.box import flows
from specreds_nova.host.box import plan as box_plan
from specreds_nova.host.box import privileged

# Keys of the bridge's external ids.
_PORT = 'specreds-port'
_BACKUP = 'specreds-backup'
_INSTANCE = 'specreds-instance'

_SHUT = 'secure'
_OPEN = 'standalone'
_DEVICES = '/sys/class/net'
# Neutron's names of the drivers whose ports can have boxes.
_DRIVERS = {'openvswitch', 'ovn'}
# Key of an interface's external ids that says which port it is.
_IFACE_ID = 'iface-id'
# Prefix of the bridges of trunks.
_TRUNK = 'tbr-'
# Timeout of a transaction in the database, in seconds.
_TIMEOUT = 10
_FAILURES = (ovsdb_exceptions.OvsdbAppException, RuntimeError)
# Interval at which the guest's device is looked for, in seconds.
_POLL = 0.02


class State(enum.StrEnum):
    """What a box lets through. A box of which nothing is known counts as ``SHUT``."""

    SHUT = 'shut'
    OPEN = 'open'


@dataclasses.dataclass(frozen=True)
class ExistingBox:
    """A box that exists on this host, as its bridge shows it.

    :ivar intact: it lets through what its state says; if not, it lets through less
    """

    port: str
    backup_id: str
    instance: str
    state: State
    intact: bool


class Ovs:
    """Boxes beside Neutron's Open vSwitch agent, or beside OVN's controller.

    Every step fails shut: nothing is let through before :meth:`open`, whatever crashes before it.

    :param host: Nova's name of this host
    :ivar bindings: the network service's part
    """

    def __init__(self, host: str) -> None:
        self.bindings = bindings.Bindings(host)
        # Registers os-vif's options; harmless when Nova has done it.
        os_vif.initialize()
        self._switch = ovsdb_lib.BaseOVS(cfg.CONF.os_vif_ovs)
        # os-vif's default is too long for a backup.
        self._switch.timeout = _TIMEOUT

    def warm_up(self) -> None:
        """Start what the first box would otherwise wait for."""
        # os-vif starts its helper with the first port, and reports one that runs as an error.
        if vif_privsep.vif_plug.channel is None:
            vif_privsep.vif_plug.start()
        # Fails if there is no switch.
        self._switch.ovsdb.list_br().execute(check_error=True)
        # os-vif loads the rest with the first port, in two processes. Unplugging a port that does
        # not exist has no other effect.
        port = uuidutils.generate_uuid()
        _unplug(port, f'tap{port[:11]}', cfg.CONF.neutron.ovs_bridge, port, {})

    def refusal(self, vif_type: str, vnic_type: str, details: Mapping[str, Any]) -> str | None:
        """Return why a port with this binding cannot have a box, or None."""
        if vnic_type != network_model.VNIC_TYPE_NORMAL:
            return f'a port of type {vnic_type} does not go through a switch of this host'
        if vif_type != network_model.VIF_TYPE_OVS:
            return f'its ports are bound as {vif_type}, which has no box'
        if str(details.get(network_model.VIF_DETAILS_BRIDGE_NAME, '')).startswith(_TRUNK):
            return 'it is the parent of a trunk'
        drivers = box_plan.drivers(details)
        if drivers and not drivers & _DRIVERS:
            names = ', '.join(sorted(drivers))
            return f'its ports are bound by {names}, which has no box'
        return None

    def seal(self, plan: box_plan.Plan) -> None:
        """Make the port's box, shut. Idempotent.

        :raises errors.BoxFailed: it could not be made; the part that exists is shut
        """
        try:
            datapath = self._datapath(plan)
            self._make_bridge(plan, datapath)
        except _FAILURES as exc:
            raise errors.BoxFailed(port=plan.port, reason=str(exc)) from exc
        self._send(plan, flows.bundle(flows.sealed(plan)))

    def serve(self, plan: box_plan.Plan) -> None:
        """Connect the device that leads to DHCP and metadata, which was just made.

        :raises errors.BoxFailed: it could not be connected
        """
        # Two transactions: ovs-vswitchd would keep using a device that is replaced within one.
        database = self._switch.ovsdb
        self._transact(plan, database.del_port(plan.service, plan.bridge, if_exists=True))
        self._transact(plan, database.add_port(plan.bridge, plan.service,
                                               ofport_request=flows.SERVICE))

    def attached(self, plan: box_plan.Plan) -> None:
        """Check that the guest's device is in the box and nowhere else.

        :raises errors.BoxFailed: it is not
        """
        self._must_be_in(plan, plan.device, plan.bridge,
                         self._switch.ovsdb.iface_to_br(plan.device).execute())
        if plan.hybrid:
            self._must_be_in(plan, plan.tap, box_plan.linux_bridge_of(plan.port),
                             _master(plan.tap))
        self._wait_for_device(plan)
        # A switch in user space and libvirt may change the device's flags at the same moment, and
        # undo each other's change.
        privileged.bring_up(plan.tap)

    def open(self, plan: box_plan.Plan) -> None:
        """Connect guest and network, and announce the guest, atomically. Idempotent.

        :raises errors.BoxFailed: the box is still shut
        """
        if plan.ovn:
            self._transact(plan, self._switch.ovsdb.db_set(
                'Interface', plan.patch_peer, ('external_ids', {_IFACE_ID: plan.port})))
        self._send(plan, flows.bundle(flows.opened(), announce.frames(plan),
                                      announce.withdrawal(plan)))

    def settle(self, plan: box_plan.Plan) -> None:
        """Make an open box independent of this service. Idempotent."""
        # The services' device must be gone before the bridge may forward by itself.
        with self._switch.ovsdb.transaction(check_error=True) as txn:
            txn.add(self._switch.ovsdb.del_port(plan.service, plan.bridge, if_exists=True))
            txn.add(self._switch.ovsdb.db_set('Bridge', plan.bridge, ('fail_mode', _OPEN)))
        # After a restart the guest's device may have another port number.
        self._send(plan, flows.bundle(flows.settled()))

    def conceal(self, plan: box_plan.Plan) -> None:
        """Hide from the network service that the guest's device is removed. Idempotent."""
        # os-vif gives the port's id to the guest's device, too. Neutron's agent treats a port
        # as removed if any interface with its id is removed, in whatever bridge that is.
        self._transact(plan, self._switch.ovsdb.db_remove(
            'Interface', plan.device, 'external_ids', _IFACE_ID, if_exists=True))

    def release(self, plan: box_plan.Plan) -> None:
        """Remove the device of a guest that does not run. Idempotent."""
        # The device of a Linux bridge is there without a guest.
        if plan.hybrid or pathlib.Path(_DEVICES, plan.tap).exists():
            return
        self.conceal(plan)
        # As in serve: a switch in user space would keep using the removed device.
        database = self._switch.ovsdb
        self._transact(plan, database.del_port(plan.tap, plan.bridge, if_exists=True))
        if cfg.CONF.os_vif_ovs.isolate_vif:
            # os-vif puts a port that it makes on the dead VLAN until the network service's agent
            # has wired it, which never looks into a box. It leaves one that is there. This one has
            # the ids at once, as os-vif's has: an agent that has seen the end of the old device
            # must see the new one.
            self._transact(plan, database.add_port(
                plan.bridge, plan.tap, ofport_request=flows.GUEST,
                external_ids=_external_ids(plan)))

    def announce(self, plan: box_plan.Plan) -> None:
        """Announce the guest of an open box again."""
        # A guest that lost the withdrawal would keep a router that is gone for half an hour.
        self._send(plan, '\n'.join([*flows.packets_out(announce.frames(plan)),
                                    *flows.packets_in(announce.withdrawal(plan)), '']))

    def unplug(self, plan: box_plan.Plan) -> None:
        """Remove what was made for the guest's device, whose guest is gone. Idempotent.

        :raises Exception: something is left
        """
        # Where os-vif makes the device, libvirt does not delete it, and in the kernel's datapath a
        # row of the table QoS belongs to it, which outlives the port and its bridge.
        _unplug(plan.port, plan.tap, plan.bridge, plan.instance, plan.details,
                box_plan.linux_bridge_of(plan.port) if plan.hybrid else None)

    def remove(self, port: str) -> None:
        """Remove the port's box, shut or open. Idempotent."""
        database = self._switch.ovsdb
        patch = box_plan.patch_peer_of(port)
        self._remove_linux_bridge(port)
        with database.transaction(check_error=True) as txn:
            if bridge := database.port_to_br(patch).execute():
                txn.add(database.del_port(patch, bridge, if_exists=True))
            txn.add(database.del_br(box_plan.bridge_of(port), if_exists=True))

    @staticmethod
    def _must_be_in(plan: box_plan.Plan, device: str, bridge: str, owner: str | None) -> None:
        """:raises errors.BoxFailed: a device is in another bridge, or in none"""
        if owner != bridge:
            raise errors.BoxFailed(port=plan.port, reason=(
                f'the guest\'s device {device} is in {owner or "no bridge"}, not in {bridge}'))

    def _remove_linux_bridge(self, port: str) -> None:
        """Remove a port's Linux bridge, if that is connected to the port's box."""
        veth = box_plan.veth_of(port)
        # The database's client logs an error about a port that does not exist.
        if not pathlib.Path(_DEVICES, veth).exists():
            return
        if self._switch.ovsdb.port_to_br(veth).execute() == box_plan.bridge_of(port):
            linux_net.delete_bridge(box_plan.linux_bridge_of(port), None)
            linux_net.delete_net_dev(veth)

    def existing(self) -> list[ExistingBox]:
        """Return the boxes of this host."""
        rows = self._switch.ovsdb.db_list('Bridge', columns=['name', 'external_ids', 'fail_mode']
                                          ).execute(check_error=True)
        boxes = (self._existing(row) for row in rows if _PORT in row['external_ids'])
        return [box for box in boxes if box is not None]

    def _existing(self, row: Mapping[str, Any]) -> ExistingBox | None:
        """Return the box of a bridge; None if it was removed since the bridges were listed."""
        ids = row['external_ids']
        is_open = row['fail_mode'] == _OPEN
        try:
            intact = is_open or bool(privileged.flows(row['name']))
        except processutils.ProcessExecutionError:
            if self._value('Bridge', row['name'], 'fail_mode') is None:
                return None
            raise
        return ExistingBox(ids[_PORT], ids[_BACKUP], ids[_INSTANCE],
                           State.OPEN if is_open else State.SHUT, intact)

    def _datapath(self, plan: box_plan.Plan) -> str:
        value = self._value('Bridge', plan.integration_bridge, 'datapath_type')
        if value is None:
            raise errors.BoxFailed(port=plan.port, reason=(
                f'this host has no bridge {plan.integration_bridge}: is its network agent set '
                f'up?'))
        return str(value)

    def _make_bridge(self, plan: box_plan.Plan, datapath: str) -> None:
        database = self._switch.ovsdb
        with database.transaction(check_error=True) as txn:
            txn.add(database.add_br(plan.bridge, may_exist=True, datapath_type=datapath or None))
            txn.add(database.db_set(
                'Bridge', plan.bridge, ('fail_mode', _SHUT), ('external_ids', {
                    _PORT: plan.port, _BACKUP: plan.backup_id, _INSTANCE: plan.instance})))
            txn.add(database.add_port(plan.bridge, plan.device, ofport_request=flows.GUEST))
            txn.add(database.add_port(plan.bridge, plan.patch))
            txn.add(database.db_set(
                'Interface', plan.patch, ('type', 'patch'), ('ofport_request', flows.PATCH),
                ('options', {'peer': plan.patch_peer})))
            txn.add(database.add_port(plan.integration_bridge, plan.patch_peer))
            txn.add(database.db_set(
                'Interface', plan.patch_peer, ('type', 'patch'),
                ('options', {'peer': plan.patch}), ('external_ids', _external_ids(plan))))
            if plan.ovn:
                # The patch of a box that was open has the id: db_set removes no key.
                txn.add(database.db_remove('Interface', plan.patch_peer, 'external_ids',
                                           _IFACE_ID))

    @staticmethod
    def _transact(plan: box_plan.Plan, command: Any) -> None:
        """:raises errors.BoxFailed: a command of the switch's database failed"""
        try:
            command.execute(check_error=True)
        except _FAILURES as exc:
            raise errors.BoxFailed(port=plan.port, reason=str(exc)) from exc

    def _wait_for_device(self, plan: box_plan.Plan) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while (ofport := self._value('Interface', plan.device, 'ofport')) != flows.GUEST:
            if time.monotonic() > deadline:
                raise errors.BoxFailed(port=plan.port, reason=(
                    f'its device {plan.device} is port {ofport} of {plan.bridge} '
                    f'instead of {flows.GUEST}'))
            time.sleep(_POLL)

    def _value(self, table: str, record: str, column: str) -> Any:
        """Return a value; None if there is no such record, or the value is empty."""
        rows = self._switch.ovsdb.db_list(table, [record], [column], if_exists=True
                                          ).execute(check_error=True)
        value = rows[0][column] if rows else None
        return None if value == [] else value

    def _send(self, plan: box_plan.Plan, commands: str) -> None:
        try:
            privileged.send_flows(plan.bridge, commands)
        except (processutils.ProcessExecutionError, OSError) as exc:
            raise errors.BoxFailed(port=plan.port, reason=(
                f'the flows of {plan.bridge} could not be changed: {exc}')) from exc


def _unplug(port: str, device: str, bridge: str, instance: str, details: Mapping[str, Any],
            linux_bridge: str | None = None) -> None:
    """Have os-vif unplug a port, as Nova does.

    :param linux_bridge: the bridge that the device is in, if it is not in Open vSwitch's own
    """
    profile = vif_objects.VIFPortProfileOpenVSwitch(interface_id=port, create_port=False)
    if details.get(box_plan.DATAPATH):
        profile.datapath_type = details[box_plan.DATAPATH]
    if 'create_tap' in profile.fields:
        profile.create_tap = bool(details.get(box_plan.CREATE_TAP))
    kind = vif_objects.VIFBridge if linux_bridge else vif_objects.VIFOpenVSwitch
    os_vif.unplug(
        kind(id=port, plugin='ovs', vif_name=device, bridge_name=linux_bridge or bridge,
             network=network_objects.Network(id=port, bridge=bridge), port_profile=profile),
        instance_objects.InstanceInfo(uuid=instance, name=f'specreds-{instance}'))


def _external_ids(plan: box_plan.Plan) -> dict[str, str]:
    """Return the external ids by which Neutron's agent recognizes the interface of the port."""
    ids = {'iface-status': 'active', 'attached-mac': plan.mac, 'vm-uuid': plan.instance}
    return ids if plan.ovn else {_IFACE_ID: plan.port, **ids}


def _master(device: str) -> str | None:
    """Return the Linux bridge that a device is in; None if it is in none."""
    try:
        return os.path.basename(os.readlink(f'{_DEVICES}/{device}/master'))
    except OSError:
        return None
