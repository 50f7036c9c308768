# SPDX-License-Identifier: Apache-2.0
"""Start of a backup: check, claim, connect, seal, and run it."""

from collections.abc import Callable, Iterator
import contextlib
import functools
import threading
import time
from typing import Any

from nova import exception as nova_exception
from nova import objects
import nova.conf
from nova.network import model as network_model
from nova.network import neutron

from specreds_nova import exception
from specreds_nova.host import releases
from specreds_nova.host.backup import domain as backup_domain
from specreds_nova.host.backup import host as backup_host
from specreds_nova.host.backup import journal as journals
from specreds_nova.host.backup import marks
from specreds_nova.host.box import errors as box_errors

CONF = nova.conf.CONF

# How long Neutron may take to bind a port, and how often that is checked, in seconds.
_BINDING = 5.0
_POLL = 0.1


def load(context: Any, instance_uuid: str) -> tuple[Any, Any]:
    """Return a server and its block devices.

    :raises ServerNotEligible: this host's cell has no such server
    """
    try:
        instance = backup_domain.load_instance(context, instance_uuid)
    except nova_exception.InstanceNotFound as exc:
        raise exception.ServerNotEligible(
            f'there is no server {instance_uuid} in the cell of this host') from exc
    _await_binding(context, instance)
    return instance, objects.BlockDeviceMappingList.get_by_instance_uuid(context, instance_uuid)


def _await_binding(context: Any, instance: Any) -> None:
    """Wait until Nova's cached network information shows no port as unbound.

    Neutron shows a port of the primary as unbound for a moment while it binds the port anew,
    which happens when the profile of a binding changes: a box is made or removed.
    """
    until = time.monotonic() + _BINDING
    while _unbound(instance) and time.monotonic() < until:
        time.sleep(_POLL)
        neutron.API().get_instance_nw_info(context, instance, force_refresh=True)


def _unbound(instance: Any) -> bool:
    return any(vif['type'] == network_model.VIF_TYPE_UNBOUND
               for vif in instance.get_network_info())


class StartCancelled(Exception):
    """The start was cancelled."""


class StartsInProgress:
    """The starts in progress on this host."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starts: dict[str, tuple[str, threading.Event]] = {}

    @contextlib.contextmanager
    def track(self, backup_id: str, instance_uuid: str) -> Iterator[Callable[[], None]]:
        """Enter a start; yield a function that raises :class:`StartCancelled` if cancelled."""
        cancelled = threading.Event()

        def check_cancelled() -> None:
            if cancelled.is_set():
                raise StartCancelled

        with self._lock:
            self._starts[backup_id] = instance_uuid, cancelled
        try:
            yield check_cancelled
        finally:
            with self._lock:
                del self._starts[backup_id]

    def cancel(self, backup_id: str) -> str | None:
        """Cancel a start before its next step; return its server, or None if there is no start."""
        with self._lock:
            instance_uuid, cancelled = self._starts.get(backup_id, (None, None))
        if cancelled is not None:
            cancelled.set()
        return instance_uuid


class Starter:
    """Starts backups on this host.

    :ivar primary_known: called with the host of each primary before anything is made
    """

    def __init__(self, host: backup_host.Host) -> None:
        self._host = host
        self.primary_known: Callable[[str], None] = lambda host: None

    def start(self, record: journals.Record, check_cancelled: Callable[[], None]) -> None:
        """Start a backup. If this raises, the journal says what has to be removed.

        :param check_cancelled: called before each step; raises if the start was cancelled
        :raises ServerNotEligible: this host cannot run it
        """
        began = time.monotonic()
        context = backup_host.admin_context()
        # Cinder's answer takes longest. The request only reads, so a failed start leaves nothing.
        connecting = releases.spawn(self._connect, record.superposition_id)
        try:
            instance, bdms, network_info = self._prepare(context, record, check_cancelled)
        finally:
            failure = connecting.exception()
        if failure is not None:
            raise failure
        connections, record.timings_ms['connection'] = connecting.result()
        _check_complete(record, set(connections), backup_domain.disk_ids(instance, bdms))
        mark = marks.Mark(record.backup_id, record.superposition_id, record.numa_topology)
        try:
            self._host.box.admitted(record.backup_id)
        except box_errors.BoxRefused as exc:
            raise exception.ServerNotEligible(exc.format_message()) from exc
        check_cancelled()
        with record.timed('domain'):
            self._host.launcher.launch(context, instance, bdms, connections, network_info, mark)
        record.timings_ms['rpc_to_running'] = round((time.monotonic() - began) * 1e3, 1)
        # The guest boots meanwhile.
        if instance.device_metadata is not None:
            self._host.launcher.locate_devices(context, instance)
        with record.timed('attached'):
            self._host.box.attached(instance, record.backup_id)

    def _connect(self, superposition_id: str) -> tuple[Any, float]:
        """Return how to open the volumes, and the milliseconds that Cinder took to answer."""
        began = time.monotonic()
        connections = self._host.cinder.connections(superposition_id, {
            'host': self._host.name, 'ip': CONF.my_block_storage_ip, 'multipath': False})
        return connections, round((time.monotonic() - began) * 1e3, 1)

    def _prepare(self, context: Any, record: journals.Record, check_cancelled: Callable[[], None]
                 ) -> tuple[Any, Any, Any]:
        """Check the server, claim its resources and seal its ports; return what was read."""
        with record.timed('database'):
            instance, bdms = load(context, record.instance_uuid)
        check_cancelled()
        with record.timed('eligibility'):
            reasons = self._host.eligibility.reasons(context, instance, bdms)
        if reasons:
            raise exception.ServerNotEligible(
                f'host {self._host.name} cannot run a backup of server {instance.uuid}: '
                f'{"; ".join(reasons)}')
        record.instance_name = instance.name
        record.primary = instance.host
        self.primary_known(record.primary)
        record.volume_ids = [bdm.volume_id for bdm in bdms if bdm.volume_id]
        check_cancelled()
        self._host.journal.save(record)
        if instance.numa_topology is not None:
            with record.timed('topology'):
                instance.numa_topology = self._host.topologies.claim(record, instance)
        claiming = releases.spawn(_timed, record, 'claim', functools.partial(
            self._claim, context, record, instance))
        try:
            network_info = _timed(record, 'seal', functools.partial(
                self._host.box.seal, context, instance, record.backup_id))
        finally:
            # Both end before an error is raised, so that nothing is made after the removal.
            failure = claiming.exception()
        if failure is not None:
            raise failure
        return instance, bdms, network_info

    def _claim(self, context: Any, record: journals.Record, instance: Any) -> None:
        """Claim what a server needs of this host, and report it to Nova's scheduler."""
        self._host.claims.claim(context, record.backup_id, instance)
        self._host.report_topology(record, 'has claimed CPUs or pages')


def _check_complete(record: journals.Record, superposed: set[str], disks: set[str]) -> None:
    """Check that the superposition has all volumes and disks of the server, and no other.

    :param disks: the disks that Nova keeps in RBD
    :raises ServerNotEligible: a disk is missing, which no other host could change
    :raises StartFailed: a volume is missing, or superfluous
    """
    if missing := disks - superposed:
        raise exception.ServerNotEligible(
            f'superposition {record.superposition_id} does not have disks '
            f'{", ".join(sorted(missing))} of server {record.instance_uuid}: superpose all of '
            f'them together')
    wanted = {*record.volume_ids, *disks}
    if superposed != wanted:
        raise exception.StartFailed(
            f'superposition {record.superposition_id} has {", ".join(sorted(superposed))}, but '
            f'server {record.instance_uuid} has {", ".join(sorted(wanted))}: superpose all of '
            f'them together')


def _timed(record: journals.Record, what: str, ask: Callable[[], Any]) -> Any:
    with record.timed(what):
        return ask()
