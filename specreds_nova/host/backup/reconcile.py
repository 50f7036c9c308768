# SPDX-License-Identifier: Apache-2.0
"""Reconciliation of this host's backups with the decisions that Cinder has recorded.

It runs when nova-compute starts, and every 30 s. The state of
the superposition decides; while Cinder does not answer, nothing changes.
"""

from collections.abc import Callable
import threading
import time
from typing import Any

from nova import exception as nova_exception
import nova.conf
from oslo_log import log as logging

from specreds_cinder.superposition.truth import states
from specreds_nova import conf
from specreds_nova.host.backup import adoption as adoptions
from specreds_nova.host.backup import backups as backup_module
from specreds_nova.host.backup import host as backup_host
from specreds_nova.host.backup import journal as journals
from specreds_nova.host.backup import marks
from specreds_nova.host.backup import readiness

CONF = nova.conf.CONF
conf.register(CONF)
LOG = logging.getLogger(__name__)

# How often, and how long, an adopted server is checked for becoming this host's, in seconds.
_SETTLING = 0.2
_SETTLED_AFTER = 60.0
# Seconds between two looks at the backups: events wake the thread before.
_INTERVAL_S = 30.0
# Seconds for which it is known how a backup ended: a recovery that asks has ended by then.
_KEEP_S = 86400.0


class Reconciler:
    """Brings each backup of this host into the state that Cinder has recorded."""

    def __init__(self, host: backup_host.Host, backups: backup_module.Backups,
                 adoption: adoptions.Adoption, watches: readiness.Watches, merger: Any) -> None:
        self._host = host
        self._journal = host.journal
        self._backups = backups
        self._adoption = adoption
        self._watches = watches
        self._merger = merger

    def restore_records(self) -> None:
        """Write records of backups that run here without one.

        This comes before Nova lists its domains, since backups are hidden from it.
        """
        for guest in self._host.driver._host.list_guests(only_running=False):
            mark = marks.mark_of(guest.get_xml_desc())
            if mark is None or self._journal.get(mark.backup_id) is not None:
                continue
            instance = backup_host.find_instance(backup_host.admin_context(), guest.uuid)
            if instance is not None and instance.host == self._host.name:
                # It was adopted, and its record forgotten after that.
                continue
            LOG.warning('domain %s is backup %s, which has no record on this host: writing one',
                        guest.name, mark.backup_id)
            self._journal.save(journals.Record(
                mark.backup_id, guest.uuid, mark.superposition_id, self._host.name,
                phase=journals.RUNNING, instance_name=guest.name,
                numa_topology=mark.numa_topology))

    def reset_evacuations(self) -> None:
        """Reset the evacuations that were cut off when nova-compute ended."""
        for record in self._journal.records():
            if record.phase == journals.PROMOTED:
                try:
                    self._adoption.reset_evacuation(record)
                except Exception:
                    LOG.exception('cannot reset the evacuation of server %s, which was cut off',
                                  record.instance_uuid)

    def run(self) -> None:
        """Reconcile all backups once. Never raises."""
        for record in self._journal.records():
            try:
                self._look_after(record)
            except nova_exception.NovaException as exc:
                LOG.warning('cannot continue backup %s, which is %s: %s', record.backup_id,
                            record.phase, exc.format_message())
            except Exception:
                LOG.exception('cannot reconcile backup %s, which is %s', record.backup_id,
                              record.phase)
        for what, step in (('boxes', self._reconcile_boxes), ('merges', self._merger.scan)):
            try:
                step()
            except Exception:
                LOG.exception('cannot reconcile the %s of this host', what)

    def await_adoption(self, record: journals.Record) -> None:
        """Wait until Nova has made an adopted backup its server; then the merge may end."""
        until = time.monotonic() + _SETTLED_AFTER
        while time.monotonic() < until:
            try:
                with backup_host.locked(record.instance_uuid):
                    if record.phase != journals.PROMOTED:
                        return
                    if self._adoption.confirm(record):
                        self._adopted(record)
                        return
            except Exception:
                LOG.exception('cannot check yet whether backup %s is adopted',
                              record.backup_id)
            time.sleep(_SETTLING)

    def _look_after(self, record: journals.Record) -> None:
        if record.phase in journals.FINISHED:
            if time.time() - record.updated_at > _KEEP_S:
                self._journal.forget(record.backup_id)
            return
        with backup_host.locked(record.instance_uuid):
            # The phase is read under the lock: nothing else works on the backup.
            if record.phase == journals.STARTING:
                self._backups.fail(record, 'nova-compute ended during its start')
            elif record.phase == journals.ABORTING:
                self._backups.drop(record, record.error)
            elif record.phase in (journals.RUNNING, journals.HARDENED):
                self._undecided(record)
            elif record.phase == journals.PROMOTED:
                self._promoted(record)
            elif record.phase in journals.OURS:
                self._ours(record)

    def _undecided(self, record: journals.Record) -> None:
        state = self._host.cinder.state(record.superposition_id)
        if state in states.DECIDED:
            LOG.info('superposition %s is %s: promoting backup %s', record.superposition_id,
                     state, record.backup_id)
            self._backups.open_box(record)
        elif state is None or state == states.ABORTING:
            self._backups.drop(record, f'superposition {record.superposition_id} is '
                                       f'{state or "gone"}')
        elif backup_host.find_instance(backup_host.admin_context(), record.instance_uuid) is None:
            self._backups.drop(record, 'the server is deleted')
        elif self._backups.runs(record):
            self._watches.begin(record)
        elif state == states.SUPERPOSED:
            # While it is collapsing, the data that it had made durable may still be promoted.
            self._backups.fail(record, 'its QEMU has ended')

    def _promoted(self, record: journals.Record) -> None:
        if self._adoption.confirm(record):
            self._adopted(record)
            return
        instance = backup_host.find_instance(backup_host.admin_context(), record.instance_uuid)
        if instance is None:
            self._backups.drop(record, 'the server is deleted')
        elif self._overtaken(record, instance):
            self._backups.fail(record, f'superposition {record.superposition_id} is gone, and the '
                                       f'server is on {instance.host}')
        else:
            self._backups.open_box(record)
            self._adoption.keep_active(record)

    def _overtaken(self, record: journals.Record, instance: Any) -> bool:
        """Return whether a server runs on another host than a promoted backup of it.

        This host was silent, and Cinder has merged the backup's version.
        """
        return (bool(record.primary) and instance.host != record.primary
                and self._host.cinder.state(record.superposition_id) is None)

    def _adopted(self, record: journals.Record) -> None:
        self._host.box.adopted(backup_host.admin_context(), record.backup_id)
        self._merger.ensure(record.instance_uuid, record.superposition_id)

    def _ours(self, record: journals.Record) -> None:
        instance = backup_host.find_instance(backup_host.admin_context(), record.instance_uuid)
        if instance is None or instance.host != self._host.name:
            LOG.info('forgetting backup %s: server %s has left this host', record.backup_id,
                     record.instance_uuid)
            self._journal.forget(record.backup_id)
        elif self._merger.progress(record.instance_uuid) is not None:
            # Its merge asks Cinder, and so would this for each merge of the host.
            return
        elif self._host.cinder.state(record.superposition_id) is None:
            record.phase = journals.MERGED
            self._journal.save(record)

    def _reconcile_boxes(self) -> None:
        records = self._journal.records()
        undecided = {journals.STARTING, journals.RUNNING, journals.HARDENED}
        self._host.box.reconcile(
            shut=[record.backup_id for record in records if record.phase in undecided],
            opened=[record.backup_id for record in records
                    if record.phase == journals.PROMOTED or record.phase in journals.OURS],
            unsure=[record.backup_id for record in records
                    if record.phase == journals.ABORTING])


class Warmup:
    """Preparations that have not succeeded yet; the services may start later than this host."""

    def __init__(self, host: backup_host.Host) -> None:
        context = backup_host.admin_context
        self._cold: list[Callable[[], Any]] = [
            host.box.warm_up_helpers,
            host.cinder.warm_up,
            lambda: host.claims.warm_up(context()),
            lambda: host.box.warm_up_network(context()),
            host.driver._host.get_cpu_model_names,
        ]

    def run(self) -> None:
        """Run the preparations that have not succeeded yet. Never raises."""
        for step in list(self._cold):
            try:
                step()
            except Exception as exc:
                LOG.info('the first backup will take longer to start: %s', exc)
            else:
                self._cold.remove(step)


class Periodic:
    """Runs the reconciler in a thread of its own; in a green one where Nova uses these."""

    def __init__(self, reconciler: Reconciler, warm_up: Warmup) -> None:
        self._reconciler = reconciler
        self._warmup = warm_up
        self._stopped = False
        self._due = threading.Event()

    def start(self) -> None:
        """Start the thread; it reconciles at once."""
        threading.Thread(target=self._run, name='specreds-reconcile', daemon=True).start()

    def stop(self) -> None:
        """End the thread after the current round."""
        self._stopped = True
        self._due.set()

    def wake(self) -> None:
        """Reconcile at once, because something has happened."""
        self._due.set()

    def _run(self) -> None:
        while not self._stopped:
            self._due.clear()
            # Existing backups come before preparations for new ones.
            self._reconciler.run()
            self._warmup.run()
            self._due.wait(_INTERVAL_S)


def merge_report(journal: journals.Journal) -> Any:
    """Return a function that writes the merger's reports into the journal."""
    def report(instance_uuid: str, superposition_id: str, progress: dict[str, Any]) -> None:
        record = journal.of_instance(instance_uuid)
        if record is None or record.superposition_id != superposition_id:
            return
        if record.phase == journals.PROMOTED:
            # The adoption writes the record now.
            record.merge = dict(progress)
            return
        if record.phase not in journals.OURS:
            return
        record.merge = dict(progress)
        if progress.get('state') == 'merged':
            record.phase = journals.MERGED
        # None as soon as a merge that was held up continues.
        record.error = progress.get('error')
        journal.save(record)
    return report
