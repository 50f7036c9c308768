# SPDX-License-Identifier: Apache-2.0
"""The parts of the backup package on one compute host, and what all of them share."""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
from typing import Any

from nova import exception as nova_exception
from nova import objects
import nova.context
from oslo_concurrency import lockutils
from oslo_log import log as logging

from specreds_nova import exception
from specreds_nova.host import cinder_api
from specreds_nova.host.backup import claims
from specreds_nova.host.backup import domain as backup_domain
from specreds_nova.host.backup import eligibility
from specreds_nova.host.backup import journal as journals
from specreds_nova.host.backup import topology

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Host:
    """One compute host.

    :ivar name: its name in Nova
    :ivar driver: Nova's libvirt driver
    :ivar topologies: claims NUMA topologies in Nova's resource tracker
    :ivar box: makes the boxes of backups
    """

    name: str
    driver: Any
    journal: journals.Journal
    cinder: cinder_api.CinderAPI
    launcher: backup_domain.Launcher
    claims: claims.Claims
    topologies: topology.TopologyClaims
    eligibility: eligibility.Eligibility
    box: Any

    def report_topology(self, record: journals.Record, change: str) -> None:
        """Report to Nova's scheduler what a backup has claimed of this host, or given back.

        Nothing else depends on that report, and Nova's next audit of this host repeats it.

        :param change: what the scheduler does not know without the report, for the log
        """
        if record.numa_topology is None:
            return
        try:
            self.topologies.report()
        except exception.ReportFailed as exc:
            LOG.warning("Nova's scheduler learns at the next audit of this host that backup %s "
                        '%s: %s', record.backup_id, change, exc.format_message())


def admin_context() -> Any:
    """Return a context for operations that no user has requested."""
    return nova.context.get_admin_context()


@contextlib.contextmanager
def locked(instance_uuid: str) -> Iterator[None]:
    """Hold the lock that Nova itself takes for operations on a server."""
    with lockutils.lock(instance_uuid, 'nova-'):
        yield


def find_instance(context: Any, instance_uuid: str) -> Any | None:
    """Return a server with what the removal of its backup reads; None if it is deleted."""
    try:
        return objects.Instance.get_by_uuid(context, instance_uuid, expected_attrs=[
            'flavor', 'info_cache', 'metadata', 'system_metadata'])
    except nova_exception.InstanceNotFound:
        return None


def remove(host: Host, record: journals.Record) -> None:
    """Remove everything that the start of a backup has made: first the domain. May be repeated.

    :raises UndoIncomplete: something could not be removed; everything else is removed
    """
    context = admin_context()
    instance = find_instance(context, record.instance_uuid)
    steps: list[Callable[[], Any]] = [
        lambda: host.launcher.remove(record.backup_id, record.instance_uuid),
        lambda: host.box.remove(context, record.backup_id),
        lambda: _remove_files(host, record, instance),
        lambda: host.claims.release(context, record.backup_id),
    ]
    failures = []
    for step in steps:
        try:
            step()
        except nova_exception.NovaException as exc:
            failures.append(exc.format_message())
        except Exception as exc:
            failures.append(f'{type(exc).__name__}: {exc}')
    if failures:
        raise exception.UndoIncomplete('; '.join(failures))


def _remove_files(host: Host, record: journals.Record, instance: Any) -> None:
    """Remove the server's directory and passphrases, unless another domain uses them."""
    if instance is not None and instance.host == host.name:
        return
    if host.launcher.find(record.instance_uuid) is None:
        host.launcher.remove_secrets(record.volume_ids)
        host.launcher.remove_files(record.instance_uuid)
