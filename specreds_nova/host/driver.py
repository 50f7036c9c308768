# SPDX-License-Identifier: Apache-2.0
"""Nova's libvirt driver with backups: ``compute_driver`` is
``specreds.SpeculativeLibvirtDriver``.

The driver only passes calls on to the packages beside it. A server that is not protected is
handled exactly as by Nova's own class.
"""

import contextlib
import functools
import inspect
import os
from typing import Any

from nova import objects
from nova import rpc
import nova.conf
from nova.virt import driver as nova_driver
from nova.virt import event as virtevent
from nova.virt.libvirt import driver as libvirt_driver
from oslo_log import log as logging

from specreds_cinder import removed_options
from specreds_nova import conf
from specreds_nova import exception
from specreds_nova import opts
from specreds_nova.beats import heartbeat
from specreds_nova.beats import primaries
from specreds_nova.beats import pulse
from specreds_nova.host import cinder_api
from specreds_nova.host import connection_lock
from specreds_nova.host import protection
from specreds_nova.host import releases
from specreds_nova.host import signatures
from specreds_nova.host.backup import adoption
from specreds_nova.host.backup import backups
from specreds_nova.host.backup import claims
from specreds_nova.host.backup import domain as backup_domain
from specreds_nova.host.backup import eligibility
from specreds_nova.host.backup import endpoint
from specreds_nova.host.backup import group_policy
from specreds_nova.host.backup import host as backup_host
from specreds_nova.host.backup import journal as journals
from specreds_nova.host.backup import marks
from specreds_nova.host.backup import readiness
from specreds_nova.host.backup import reconcile
from specreds_nova.host.backup import repeated_evacuations
from specreds_nova.host.backup import stale
from specreds_nova.host.backup import topology
from specreds_nova.host.box import sealing
from specreds_nova.host.box import vifs
from specreds_nova.host.disks import server_disks
from specreds_nova.host.disks import volume_driver
from specreds_nova.host.merge import merger as mergers
from specreds_nova.host.unmerged import driver as unmerged_driver
from specreds_nova.host.unmerged import dropped_requests
from specreds_nova.host.unmerged import interrupted_reboots
from specreds_nova.host.unmerged import operations

__all__ = ['SpeculativeLibvirtDriver']

CONF = nova.conf.CONF
conf.register(CONF)
LOG = logging.getLogger(__name__)


class SpeculativeLibvirtDriver(unmerged_driver.UnmergedLibvirtDriver):
    """LibvirtDriver that can also run backups of servers whose own host is suspected."""

    def __init__(self, virtapi: Any, read_only: bool = False) -> None:
        super().__init__(virtapi, read_only)
        connection_lock.make_reentrant(self._host)
        self._chains = volume_driver.ChainedVolumeDriver(self._host)
        self._journal = journals.Journal(os.path.join(CONF.state_path, 'specreds'))
        # Backups are unknown until init_host.
        self._box: Any = None
        self._adoption: adoption.Adoption | None = None
        self._reconciler: reconcile.Reconciler | None = None
        self._periodic: reconcile.Periodic | None = None
        self._merger: Any = None
        self._heartbeat: heartbeat.Heartbeat | None = None
        self._primaries: primaries.Primaries | None = None
        self._server_disks: server_disks.ServerDisks | None = None

    def init_host(self, host: str) -> None:
        """Also reconcile this host's backups, and serve requests for them."""
        super().init_host(host)
        compute = getattr(self.virtapi, '_compute', None)
        if compute is None:
            LOG.warning('this process is not nova-compute: it runs no backups')
            return
        removed_options.warn(CONF, *opts.list_opts()[0])
        self._journal.load()
        self._box = sealing.Box()
        self.vif_driver = vifs.VIFDriver(self._host, self._box)
        cinder = cinder_api.CinderAPI()
        launcher = backup_domain.Launcher(self)
        topologies = topology.TopologyClaims(self._journal, compute.rt)
        this_host = backup_host.Host(
            name=host, driver=self, journal=self._journal, cinder=cinder, launcher=launcher,
            claims=claims.Claims(functools.cache(lambda: _provider(host))), topologies=topologies,
            eligibility=eligibility.Eligibility(self, launcher, host, self._box, cinder,
                                                topologies),
            box=self._box)
        watches = readiness.Watches(launcher, self._box)
        host_backups = backups.Backups(this_host, watches)
        self._merger = mergers.Merger(self, cinder, reconcile.merge_report(self._journal),
                                      self._journal.expected)
        host_backups.merge = self._merger.ensure
        self._server_disks = server_disks.ServerDisks(cinder, self._journal.adopted)
        self.unmerged = operations.Unmerged(self, cinder, self._merger, self._server_disks)
        self._adoption = adoption.Adoption(this_host, host_backups)
        self._reconciler = reconcile.Reconciler(this_host, host_backups, self._adoption, watches,
                                                self._merger)
        self._reconciler.restore_records()
        self._reconciler.reset_evacuations()
        rpc.add_extra_exmods(exception.__name__)
        compute.additional_endpoints.append(endpoint.Endpoint(
            host_backups, functools.partial(stale.clean, compute, host)))
        group_policy.install(compute, self._journal)
        repeated_evacuations.install(compute)
        interrupted_reboots.install(compute)
        dropped_requests.install(compute)
        topologies.install()
        self._periodic = reconcile.Periodic(self._reconciler, reconcile.Warmup(this_host))
        self._periodic.start()
        self._heartbeat = heartbeat.of(CONF, host, self._uri(), self._overlooked)
        watches.notify = self._heartbeat.ready
        self._heartbeat.start()
        self._primaries = primaries.Primaries(CONF)
        host_backups.consult(self._primaries)
        self._primaries.start()
        LOG.info('ready for backups: %d in the journal, %s threads',
                 len(self._journal.records()), 'green' if pulse.green() else 'native')

    def cleanup_host(self, host: str) -> None:
        """Also stop the reconciler and the merges; backups go on running."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
        if self._primaries is not None:
            self._primaries.stop(0.0)
        if self._periodic is not None:
            self._periodic.stop()
            self._merger.stop()
        super().cleanup_host(host)

    # Listings without backups, which have the names and UUIDs of servers of other hosts

    def instance_exists(self, instance: Any) -> bool:
        """Return whether a server of Nova's is here."""
        hidden = self._journal.hidden()
        return not (hidden and instance.uuid in hidden) and super().instance_exists(instance)

    def list_instances(self) -> list[str]:
        """Return the names of Nova's domains."""
        hidden = self._journal.hidden()
        if not hidden:
            return list(super().list_instances())
        return [guest.name for guest in self._host.list_guests(only_running=False)
                if guest.uuid not in hidden]

    def list_instance_uuids(self) -> list[str]:
        """Return the UUIDs of Nova's domains."""
        hidden = self._journal.hidden()
        return [uuid for uuid in super().list_instance_uuids() if uuid not in hidden]

    # Evacuation to this host

    def rebuild(self, *args: Any, **kwargs: Any) -> None:
        """Adopt a promoted backup, if there is one.

        :raises NotImplementedError: there is none; Nova rebuilds the server as usual
        """
        if self._adoption is None or self._reconciler is None:
            raise NotImplementedError()
        arguments = signatures.arguments(
            nova_driver.ComputeDriver.rebuild, self, *args, **kwargs)
        if not arguments['evacuate']:
            self._refuse_until_merged(arguments['instance'], 'rebuilt')
            raise NotImplementedError()
        record = self._adoption.adopt(adoption.Evacuation(
            arguments['context'], arguments['instance'], arguments['bdms'],
            arguments['detach_block_devices'], arguments['attach_block_devices']))
        if record is None:
            raise NotImplementedError()
        releases.spawn(self._reconciler.await_adoption, record)

    rebuild.__signature__ = inspect.signature(  # type: ignore[attr-defined]
        nova_driver.ComputeDriver.rebuild)

    # Domains of protected servers, and of backups

    def _get_volume_driver(self, connection_info: dict[str, Any]) -> Any:
        kind = connection_info.get('driver_volume_type')
        if kind == volume_driver.CHAINED or (kind == volume_driver.PLAIN and protection.applies()):
            return self._chains
        return super()._get_volume_driver(connection_info)

    def _get_guest_storage_config(self, context: Any, instance: Any, *args: Any,
                                  **kwargs: Any) -> Any:
        with protection.of(instance), self._opened(instance):
            return super()._get_guest_storage_config(context, instance, *args, **kwargs)

    def _opened(self, instance: Any) -> contextlib.AbstractContextManager[None]:
        """Return the context in which a server's disks are configured as their real version."""
        if (self._server_disks is None or not server_disks.in_rbd()
                or server_disks.opened() is not None):
            return contextlib.nullcontext()
        return server_disks.opened_as(self._server_disks.overlays(instance))

    def _get_guest_disk_config(self, *args: Any, **kwargs: Any) -> Any:
        return server_disks.configured(super()._get_guest_disk_config(*args, **kwargs))

    def attach_volume(self, *args: Any, **kwargs: Any) -> Any:
        """Attach a volume with the configuration that it would have had from the start."""
        attach = super().attach_volume
        with protection.of(signatures.arguments(attach, *args, **kwargs)['instance']):
            return attach(*args, **kwargs)

    attach_volume.__signature__ = inspect.signature(  # type: ignore[attr-defined]
        libvirt_driver.LibvirtDriver.attach_volume)

    def _get_guest_config(self, instance: Any, network_info: Any, *args: Any,
                          **kwargs: Any) -> Any:
        config = super()._get_guest_config(instance, network_info, *args, **kwargs)
        mark = self._mark(instance)
        if mark is not None:
            config.metadata.append(marks.MarkConfig(mark))
        if protection.protected(instance):
            for device in readiness.devices(instance):
                config.add_device(device)
        return config

    def _hard_reboot(self, *args: Any, **kwargs: Any) -> Any:
        # Nova also starts a stopped server this way.
        with vifs.restarting():
            return super()._hard_reboot(*args, **kwargs)

    # Domains that end, but are not Nova's servers

    def emit_event(self, event: Any) -> None:
        """Pass an event on to Nova, unless it is of a backup, or the end of a stale domain.

        Nova would note the server as stopped, although it runs elsewhere, or is about to.
        """
        uuid = event.get_instance_uuid() if isinstance(event, virtevent.InstanceEvent) else None
        if uuid is not None and (uuid in self._journal.hidden() or self._ended_as_stale(event)):
            LOG.info('event %s is hidden from Nova: the domain is not the server', event)
            if self._periodic is not None and _stopped(event):
                # Reconciliation reports a lost backup to the engine at once.
                self._periodic.wake()
            return
        super().emit_event(event)

    def _create_guest(self, context: Any, xml: str, instance: Any, *args: Any,
                      **kwargs: Any) -> Any:
        # A new domain is not stale.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_stale_note(instance.uuid))
        return super()._create_guest(context, xml, instance, *args, **kwargs)

    def _ended_as_stale(self, event: Any) -> bool:
        """Return whether specreds-sentinel has noted that it ends the domain."""
        return (_stopped(event)
                and os.path.exists(_stale_note(event.get_instance_uuid())))

    def _overlooked(self, uuid: str) -> bool:
        """Return whether the end of a domain is not the end of its server.

        A domain that specreds-sentinel ended may be the server: Cinder fences and merges a
        server that has lost Ceph for half a minute. Engines know where each server is.
        """
        return uuid in self._journal.hidden()

    def _mark(self, instance: Any) -> marks.Mark | None:
        """Return the mark of a domain, which the domain keeps until its merge has ended."""
        record = self._journal.of_instance(instance.uuid)
        if record is not None and (record.phase in journals.OURS
                                   or record.phase == journals.PROMOTED):
            return marks.Mark(record.backup_id, record.superposition_id)
        return backup_domain.marking()


def _stopped(event: Any) -> bool:
    return (isinstance(event, virtevent.LifecycleEvent)
            and event.get_transition() == virtevent.EVENT_LIFECYCLE_STOPPED)


def _stale_note(instance_uuid: str) -> str:
    return os.path.join(CONF.state_path, 'specreds', 'stale', f'{instance_uuid}.json')


def _provider(host: str) -> str:
    """Return the UUID of the host's resource provider."""
    [node, *_] = objects.ComputeNodeList.get_all_by_host(backup_host.admin_context(), host)
    return str(node.uuid)
