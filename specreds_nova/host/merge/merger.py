# SPDX-License-Identifier: Apache-2.0
"""Merges of the servers of this host that run on promoted overlays.

Nothing has to be remembered: the domains show what is to be merged, and Nova's block device
mappings name the superposition. Disks that Nova keeps in RBD have no such mapping: the mark of the
domain names the superposition. A server is therefore merged wherever it runs, also after it was
moved, and after any crash.
"""

from collections.abc import Callable, Iterator
from concurrent import futures
import dataclasses
import functools
import threading
import time
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
import nova.conf
from oslo_log import log as logging

from specreds_nova import conf
from specreds_nova import exception
from specreds_nova import tasks
from specreds_nova.host import cinder_api
from specreds_nova.host.backup import marks
from specreds_nova.host.disks import connections
from specreds_nova.host.disks import nodes as disk_nodes
from specreds_nova.host.merge import errors as merge_errors
from specreds_nova.host.merge import job as merge_job
from specreds_nova.host.merge import pivot

CONF = nova.conf.CONF
conf.register(CONF)
LOG = logging.getLogger(__name__)

# Takes the ids of server and superposition, and the progress.
Report = Callable[[str, str, dict[str, Any]], None]
# Takes the id of a server. If its backup is promoted here, and Nova has not adopted the backup,
# returns the host that Nova has the server on, '' if that is unknown; None otherwise.
Expected = Callable[[str], str | None]

# Merges at a time, each of which has a thread.
_AT_A_TIME = 64
# Reports of progress per second, of all merges together. Each of them is made durable.
_REPORTS = 8.0
_NOT_NOW = (nova_exception.InternalError, nova_exception.HypervisorUnavailable)


class Merger:
    """The merges of this host.

    :param driver: Nova's libvirt driver
    :param report: called with the ids of server and superposition and the fields of a
        :class:`job.Progress`: about once a second, less often where many servers are merged, and
        whenever the state changes
    :param expected: names the host of a server that Nova is to adopt
    """

    def __init__(self, driver: Any, cinder: cinder_api.CinderAPI, report: Report,
                 expected: Expected) -> None:
        self._driver = driver
        self._cinder = cinder
        self._report = report
        self._expected = expected
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._running: dict[str, merge_job.MergeJob] = {}
        self._turns = merge_job.Turns()
        self._executor = futures.ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix='merge')

    def ensure(self, instance_uuid: str, superposition_id: str) -> None:
        """Start or continue the merge of a server that runs here; return at once."""
        tell = _Throttle(functools.partial(self._report, instance_uuid, superposition_id),
                         lambda: len(self._running))
        work = merge_job.MergeJob(
            functools.partial(self._find, instance_uuid), superposition_id,
            pivot.Record(self._cinder, superposition_id),
            functools.partial(self._owned, instance_uuid),
            lambda: self._expected(instance_uuid) is None, self._turns, tell, self._stop,
            functools.partial(self._leaving, instance_uuid))
        with self._lock:
            if self._stop.is_set() or instance_uuid in self._running:
                return
            self._running[instance_uuid] = work
        self._executor.submit(self._merge, instance_uuid, superposition_id, work, tell)

    def progress(self, instance_uuid: str) -> dict[str, Any] | None:
        """Return the progress of a server's merge; None if no merge runs."""
        with self._lock:
            work = self._running.get(instance_uuid)
        return None if work is None else dataclasses.asdict(work.progress)

    def scan(self) -> None:
        """Start the merge of every server of this host that needs one."""
        for instance_uuid, domain in self._domains():
            if self.progress(instance_uuid) is not None:
                continue
            xml = domain.XMLDesc(0)
            noted = pivot.note_of(xml)
            chained = {disk.serial for disk in disk_nodes.parse(xml) if disk.chained}
            if noted is None and not chained:
                continue
            instance = self._instance(instance_uuid)
            # A backup is this host's only after its adoption, and a task may change the host.
            if instance is None or instance.host != CONF.host or instance.task_state is not None:
                continue
            mark = marks.mark_of(xml)
            superposition_id = noted.superposition_id if noted else (
                connections.superposition(instance, chained)
                or (mark.superposition_id if mark else None))
            if superposition_id is None:
                LOG.warning('the server runs on an overlay, but its block device mappings name '
                            'no superposition; reboot it (hard) to have them refreshed',
                            instance=instance)
                continue
            self.ensure(instance_uuid, superposition_id)

    def stop(self) -> None:
        """End all merges in this process; the next nova-compute continues them."""
        self._stop.set()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _merge(self, instance_uuid: str, superposition_id: str, work: merge_job.MergeJob,
               tell: '_Throttle') -> None:
        try:
            work.run()
            LOG.info('superposition %s is merged: %s', superposition_id,
                     work.progress.timings_ms, instance_uuid=instance_uuid)
            self._tidy(instance_uuid, superposition_id)
            self._refresh(instance_uuid)
        except merge_errors.Stopped:
            LOG.info('the next nova-compute continues the merge of superposition %s',
                     superposition_id, instance_uuid=instance_uuid)
        except (merge_errors.Gone, merge_errors.Interrupted, merge_errors.Overtaken) as exc:
            LOG.warning('cannot merge superposition %s: %s', superposition_id, exc,
                        instance_uuid=instance_uuid)
            tell.failed(work.progress, str(exc))
        except Exception as exc:
            LOG.exception('cannot merge superposition %s', superposition_id,
                          instance_uuid=instance_uuid)
            tell.failed(work.progress, repr(exc))
        finally:
            with self._lock:
                del self._running[instance_uuid]

    def _tidy(self, instance_uuid: str, superposition_id: str) -> None:
        """Request that Cinder remove the overlays at once instead of a while later.

        Until they are removed, Cinder refuses some operations on the volumes.
        """
        try:
            self._cinder.merge(superposition_id, 'offline')
        except exception.BackupError as exc:
            LOG.info('the overlays of superposition %s are removed later: %s', superposition_id,
                     exc, instance_uuid=instance_uuid)

    def _refresh(self, instance_uuid: str) -> None:
        """Refresh Nova's notes of the connections; they are also refreshed at each start."""
        try:
            context = nova_context.get_admin_context()
            instance = objects.Instance.get_by_uuid(context, instance_uuid)
            connections.refresh_all(self._driver, instance)
        except Exception as exc:
            LOG.warning('cannot refresh the connections of the volumes: %s', exc,
                        instance_uuid=instance_uuid)

    def _find(self, instance_uuid: str) -> Any:
        try:
            return self._driver._host.get_connection().lookupByUUIDString(instance_uuid)
        except _NOT_NOW as exc:
            raise merge_errors.Unavailable(str(exc)) from exc

    @staticmethod
    def _instance(instance_uuid: str) -> Any:
        """Return a server as Nova's database has it; None if it is deleted."""
        try:
            return objects.Instance.get_by_uuid(nova_context.get_admin_context(), instance_uuid)
        except nova_exception.InstanceNotFound:
            return None

    def _owned(self, instance_uuid: str) -> bool:
        """Return whether a server is this host's, or is to be.

        True as long as the database does not answer.
        """
        hosts = {CONF.host, self._expected(instance_uuid)}
        try:
            instance = self._instance(instance_uuid)
        except Exception as exc:
            LOG.info('cannot check whether the server is still on this host: %s', exc,
                     instance_uuid=instance_uuid)
            return True
        return instance is not None and ('' in hosts or instance.host in hosts)

    def _leaving(self, instance_uuid: str) -> bool:
        """Return whether Nova evacuates a server from this host, or has.

        :raises Interrupted: the database does not answer
        """
        try:
            instance = self._instance(instance_uuid)
        except Exception as exc:
            raise merge_errors.Interrupted(
                f'Nova does not report whether the server is evacuated ({exc})') from exc
        return (instance is None or instance.host != CONF.host
                or tasks.is_rebuild(instance.task_state))

    def _domains(self) -> Iterator[tuple[str, Any]]:
        for guest in self._driver._host.list_guests(only_running=True):
            yield guest.uuid, guest._domain


class _Throttle:
    """Passes progress on at most once a second, and changes of the state at once.

    :param merges: returns how many merges there are, so that all of them report as often as a few
    """

    def __init__(self, report: Callable[[dict[str, Any]], None], merges: Callable[[], int]
                 ) -> None:
        self._report = report
        self._merges = merges
        self._passed: tuple[Any, ...] = ()
        self._next = 0.0

    def __call__(self, progress: merge_job.Progress) -> None:
        now = time.monotonic()
        key = (progress.state, progress.error)
        if key == self._passed and now < self._next:
            return
        self._passed, self._next = key, now + max(1.0, self._merges() / _REPORTS)
        try:
            self._report(dataclasses.asdict(progress))
        except OSError as exc:
            LOG.warning('cannot note the progress of a merge: %s', exc)

    def failed(self, progress: merge_job.Progress, error: str) -> None:
        """Pass on that an attempt has failed."""
        progress.state, progress.error = 'failed', error
        self(progress)
