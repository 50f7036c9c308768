# SPDX-License-Identifier: Apache-2.0
"""Operations on the backups of a host: start, harden, promote, abort.

Each operation may be repeated with the same backup id, also after a crash: the journal says how
far the backup had come, and Cinder what was decided in the meantime.
"""

from collections.abc import Callable
import contextlib
from typing import Any

from nova import exception as nova_exception
from oslo_log import log as logging

from specreds_cinder.superposition.truth import states
from specreds_nova import exception
from specreds_nova.beats import primaries
from specreds_nova.host.backup import domain as backup_domain
from specreds_nova.host.backup import host as backup_host
from specreds_nova.host.backup import journal as journals
from specreds_nova.host.backup import readiness
from specreds_nova.host.backup import start as starts
from specreds_nova.host.disks import durable

LOG = logging.getLogger(__name__)

_RUNS = frozenset({'running', 'paused'})
_ADVICE = {
    journals.STARTING: 'try again when it runs',
    journals.RUNNING: 'it has not ended',
    journals.HARDENED: 'it has not ended',
    journals.PROMOTED: 'it is the real version; evacuate the server to this host',
    journals.ADOPTED: 'it is the server',
    journals.MERGED: 'it is the server',
    journals.ABORTING: 'it is being removed',
    journals.ABORTED: 'it has ended; start another one',
    journals.FAILED: 'it has ended; start another one',
}
Status = dict[str, Any]


class Statuses:
    """The statuses of the backups of this host.

    :ivar primary_runs: returns whether a server runs on a host by the sentinel of that host; None
        if that is unknown
    :ivar primary_silent: returns whether the sentinel of a host was asked, and has not answered
    :ivar primary_asked: whether sentinels are asked at all
    """

    def __init__(self, host: backup_host.Host, watches: readiness.Watches) -> None:
        self._host = host
        self._watches = watches
        self.primary_runs: Callable[[str, str], bool | None] = lambda host, server: None
        self.primary_silent: Callable[[str], bool] = lambda host: False
        self.primary_asked = False

    def of(self, record: journals.Record) -> Status:
        """Return the status of a backup in the journal."""
        domain = None
        if record.phase not in journals.ENDED:
            try:
                domain = self._host.launcher.look(record.backup_id, record.instance_uuid)
            except nova_exception.NovaException as exc:
                LOG.warning('cannot inspect the domain of backup %s: %s', record.backup_id, exc)
        ready, detail = self._watches.look(record)
        return {
            'backup_id': record.backup_id,
            'instance_uuid': record.instance_uuid,
            'superposition_id': record.superposition_id,
            'host': record.host,
            'phase': record.phase,
            'ready': ready,
            'ready_detail': detail,
            'ready_timeout': record.ready_timeout,
            'ready_late': self._watches.is_late(record.backup_id),
            'first_frame': record.first_frame,
            'error': record.error,
            'timings_ms': dict(record.timings_ms),
            'merge': record.merge,
            'domain': domain and {'pid': domain.pid, 'state': domain.state},
            'primary_runs': (self.primary_runs(record.primary, record.instance_uuid)
                             if record.phase in (journals.RUNNING, journals.HARDENED) else None),
            'primary_silent': self.primary_silent(record.primary),
            'primary_asked': self.primary_asked,
        }

    def unknown(self, backup_id: str) -> Status:
        """Return the status of a backup of which this host has nothing."""
        return {'backup_id': backup_id, 'instance_uuid': None, 'superposition_id': None,
                'host': self._host.name, 'phase': journals.ABORTED, 'ready': False,
                'ready_detail': '', 'error': None, 'timings_ms': {}, 'merge': None,
                'domain': None}


class Backups:
    """The backups of this host.

    :ivar statuses: the statuses that the operations return
    :ivar merge: starts or continues the merge of a server, by its superposition; returns at once
    """

    merge: Callable[[str, str], None]

    def __init__(self, host: backup_host.Host, watches: readiness.Watches) -> None:
        self._host = host
        self._journal = host.journal
        self._watches = watches
        watches.then = self._harden_early
        self._starter = starts.Starter(host)
        self._starts_in_progress = starts.StartsInProgress()
        self.statuses = Statuses(host, watches)

    def consult(self, sentinels: primaries.Primaries) -> None:
        """Have sentinels asked about the primaries of backups, from the start of a backup on."""
        self._starter.primary_known = sentinels.expect
        self.statuses.primary_runs = sentinels.runs
        self.statuses.primary_silent = sentinels.silent
        self.statuses.primary_asked = sentinels.asks

    # For callers of RPC

    def check(self, instance_uuid: str) -> dict[str, Any]:
        """Return whether this host can run a server's backup, and the reasons if it cannot.

        :returns: ``eligible``, ``reasons``, ``immovable``: why Nova would refuse to evacuate the
            server, or None; and ``disks``: the disks in RBD that have to be superposed
        """
        context = backup_host.admin_context()
        instance, bdms = starts.load(context, instance_uuid)
        reasons = self._host.eligibility.all_reasons(context, instance, bdms)
        immovable = self._host.eligibility.immovable(context, instance)
        disks = set() if reasons else backup_domain.disk_ids(instance, bdms)
        return {'eligible': not reasons, 'reasons': reasons, 'immovable': immovable,
                'disks': sorted(disks)}

    def start(self, backup_id: str, instance_uuid: str, superposition_id: str
              ) -> Status:
        """Start a backup. When this returns, its guest runs in a box.

        :raises ServerNotEligible: this host cannot run it; nothing has been started
        :raises BackupConflict: the backup has ended, or the server has another one on this host
        :raises StartFailed: the start failed; everything that it had made is removed
        """
        with backup_host.locked(instance_uuid):
            record = self._journal.get(backup_id)
            if record is not None:
                check_same(record, instance_uuid, superposition_id)
                if record.phase != journals.STARTING:
                    return self.statuses.of(record)
                # nova-compute ended during the start.
                self._undo(record)
            other = self._journal.of_instance(instance_uuid)
            if other is not None and other.backup_id != backup_id:
                raise exception.BackupConflict(
                    f'backup {other.backup_id} of server {instance_uuid} is {other.phase} on '
                    f'this host: end that backup first')
            record = journals.Record(backup_id, instance_uuid, superposition_id,
                                     self._host.name)
            try:
                with self._starts_in_progress.track(backup_id, instance_uuid) as check_cancelled:
                    self._starter.start(record, check_cancelled)
            except starts.StartCancelled as exc:
                self._drop_unstarted(record)
                raise exception.StartFailed(
                    f'backup {backup_id} of server {instance_uuid} was aborted during its '
                    f'start') from exc
            except exception.ServerNotEligible:
                if self._journal.get(backup_id) is not None:
                    self.fail(record, 'the server is not eligible')
                raise
            except Exception as exc:
                LOG.exception('backup %s of server %s could not be started', backup_id,
                              instance_uuid)
                why = _words(exc)
                if self._journal.get(backup_id) is not None:
                    self.fail(record, why)
                raise exception.StartFailed(
                    f'the backup of server {instance_uuid} could not be started: {why}') from exc
            self._advance(record, journals.RUNNING)
            self._watches.begin(record)
            return self.statuses.of(record)

    def status(self, backup_id: str) -> Status:
        """Return the status of a backup."""
        return self.statuses.of(self._get(backup_id))

    def harden(self, backup_id: str) -> Status:
        """Make durable what a backup has written, and all that it writes from here on.

        :raises BackupConflict: the backup does not run
        """
        record = self._get(backup_id)
        with backup_host.locked(record.instance_uuid):
            if record.phase in journals.OURS or record.phase == journals.PROMOTED:
                return self.statuses.of(record)
            check_phase(record, journals.RUNNING, journals.HARDENED)
            self._harden(record)
            return self.statuses.of(record)

    def promote(self, backup_id: str, keep_claim: bool = False) -> Status:
        """Open the box of a backup whose volumes Cinder has promoted.

        :param keep_claim: the caller calls :meth:`release` right before the evacuation, so that
            nothing else takes the resources meanwhile
        :raises BackupConflict: Cinder has not promoted them, or the backup has ended
        :raises BackupLost: the backup does not run; evacuate the server
        :raises SuperpositionUnknown: Cinder does not answer
        """
        record = self._get(backup_id)
        with backup_host.locked(record.instance_uuid):
            if record.phase in journals.OURS:
                return self.statuses.of(record)
            if record.phase == journals.PROMOTED:
                self.open_box(record)
                return self.statuses.of(record)
            check_phase(record, journals.RUNNING, journals.HARDENED)
            state = self._host.cinder.state(record.superposition_id)
            if state not in states.DECIDED:
                raise exception.BackupConflict(
                    f'superposition {record.superposition_id} is {state or "gone"}, not '
                    f'promoted: ' + ('collapse it first' if state else 'abort the backup'))
            self.open_box(record, keep_claim=keep_claim)
            return self.statuses.of(record)

    def release(self, backup_id: str) -> Status:
        """Release the claim of a promoted backup, as Nova's evacuation claims for the server.

        :raises BackupConflict: the backup is not promoted
        :raises PlacementUnknown: Placement does not answer
        :raises ReportFailed: Nova does not take the report of the host's NUMA topology
        """
        record = self._get(backup_id)
        if record.phase not in journals.OURS:
            check_phase(record, journals.PROMOTED)
        self._let_evacuate(record)
        return self.statuses.of(record)

    def abort(self, backup_id: str) -> Status:
        """Remove a backup and everything that was made for it; an unknown id counts as removed.

        A start in progress is cancelled before its next step.

        :raises BackupConflict: the backup is promoted, or is the server already
        :raises SuperpositionUnknown: Cinder does not answer, so the backup may be promoted
        """
        instance_uuid = self._starts_in_progress.cancel(backup_id)
        record = self._journal.get(backup_id)
        if record is not None:
            instance_uuid = record.instance_uuid
        if instance_uuid is None:
            return self.statuses.unknown(backup_id)
        with backup_host.locked(instance_uuid):
            # A start that has just ended may have left a record.
            record = self._journal.get(backup_id)
            if record is None:
                return self.statuses.unknown(backup_id)
            if record.phase in journals.ENDED:
                return self.statuses.of(record)
            check_phase(record, journals.STARTING, journals.RUNNING,
                                      journals.HARDENED, journals.ABORTING)
            state = self._host.cinder.state(record.superposition_id)
            if state in states.DECIDED:
                raise exception.BackupConflict(
                    f'superposition {record.superposition_id} is {state}: the backup is the '
                    f'real version; promote it')
            self.drop(record)
            return self.statuses.of(record)

    # For adoption and reconciliation, whose callers hold the server's lock

    def open_box(self, record: journals.Record, *, keep_claim: bool = False) -> None:
        """Open the box of a backup that is promoted according to Cinder.

        :param keep_claim: the caller releases the claim
        :raises BackupLost: the backup does not run; what is left of it is removed
        """
        if not self.runs(record):
            why = (f'the backup of server {record.instance_uuid} does not run, but the data that '
                   f'it had made durable is promoted: evacuate the server, which starts it from '
                   f'that data')
            self.fail(record, why)
            raise exception.BackupLost(why)
        if record.phase == journals.RUNNING:
            # Whatever promoted the volumes should have hardened the backup first.
            self._harden(record)
        if record.phase != journals.PROMOTED:
            # The journal comes first: reconciliation shuts the open box of an unpromoted backup.
            self._advance(record, journals.PROMOTED)
        if not record.opened:
            context = backup_host.admin_context()
            instance = backup_host.find_instance(context, record.instance_uuid)
            record.timings_ms.update(self._host.box.open(context, instance, record.backup_id))
            record.opened = True
            self._journal.save(record)
            self._watches.opened(record)
            if not keep_claim:
                self._release(record)
        # Beside the adoption by Nova.
        self.merge(record.instance_uuid, record.superposition_id)

    def drop(self, record: journals.Record, why: str | None = None) -> None:
        """Remove a backup that is not promoted.

        :raises UndoIncomplete: something could not be removed; the reconciler tries again
        """
        self._advance(record, journals.ABORTING)
        self._undo(record)
        record.error = why
        self._end(record, journals.ABORTED)

    def fail(self, record: journals.Record, why: str) -> None:
        """Remove what is left of a lost backup, and note the reason."""
        record.error = why
        self._advance(record, journals.ABORTING)
        try:
            self._undo(record)
        except exception.UndoIncomplete:
            return
        record.error = why
        self._end(record, journals.FAILED)

    def runs(self, record: journals.Record) -> bool:
        """Return whether the domain of a backup exists and has its memory."""
        domain = self._host.launcher.look(record.backup_id, record.instance_uuid)
        return domain is not None and domain.state in _RUNS

    # Steps

    def _drop_unstarted(self, record: journals.Record) -> None:
        if self._journal.get(record.backup_id) is None:
            # The start had made nothing.
            self._advance(record, journals.ABORTED)
            return
        with contextlib.suppress(exception.UndoIncomplete):
            self.drop(record)

    def _harden(self, record: journals.Record) -> None:
        guest = self._host.launcher.backup(record.backup_id, record.instance_uuid)
        if guest is None or not self.runs(record):
            raise exception.BackupLost(
                f'the backup of server {record.instance_uuid} does not run: abort the backup')
        with record.timed('harden'):
            try:
                durable.harden(guest._domain)
            except durable.NotDurable as exc:
                raise exception.BackupConflict(
                    f'the backup of server {record.instance_uuid} cannot be made durable '
                    f'({exc}): do not promote it') from exc
        self._advance(record, journals.HARDENED)

    def _harden_early(self, backup_id: str) -> None:
        """Harden a backup that is ready or sends frames: the engine asks for that next."""
        try:
            self.harden(backup_id)
        except exception.BackupError as exc:
            LOG.info('backup %s is not hardened yet: %s', backup_id, exc.format_message())
        except Exception:
            LOG.exception('backup %s could not be hardened', backup_id)

    def _release(self, record: journals.Record) -> None:
        """Release the claim; if Placement does not answer, leave it to the reconciler."""
        try:
            self._let_evacuate(record)
        except exception.BackupError as exc:
            LOG.warning('%s; the release is repeated', exc.format_message())
            record.error = exc.format_message()
            self._journal.save(record)

    def _let_evacuate(self, record: journals.Record) -> None:
        """Have Nova find room for the server's evacuation where its backup runs."""
        self._host.claims.release(backup_host.admin_context(), record.backup_id)
        self._host.topologies.offer(record)

    def _end(self, record: journals.Record, phase: str) -> None:
        """Note that nothing of a backup is left, and report what that has set free."""
        self._advance(record, phase)
        self._host.report_topology(record, 'has given its CPUs and pages back')

    def _undo(self, record: journals.Record) -> None:
        self._watches.end(record.backup_id)
        try:
            backup_host.remove(self._host, record)
        except exception.UndoIncomplete as exc:
            why = exc.format_message()
            if why != record.error:
                # Each reconciliation repeats this; the reason is logged once.
                LOG.error('backup %s is removed only in part, and the removal is repeated: %s',
                          record.backup_id, why)
            record.error = why
            self._journal.save(record)
            raise

    def _advance(self, record: journals.Record, phase: str) -> None:
        LOG.info('backup %s of server %s: %s -> %s', record.backup_id, record.instance_uuid,
                 record.phase, phase)
        record.phase = phase
        self._journal.save(record)

    def _get(self, backup_id: str) -> journals.Record:
        record = self._journal.get(backup_id)
        if record is None:
            raise exception.BackupNotFound(
                f'host {self._host.name} has no backup {backup_id}')
        return record


def _words(exc: Exception) -> str:
    if isinstance(exc, nova_exception.NovaException):
        return str(exc.format_message())
    return f'{type(exc).__name__}: {exc}'


def check_phase(record: journals.Record, *phases: str) -> None:
    """Check that a backup is in one of the phases.

    :raises BackupConflict: it is in another phase
    """
    if record.phase in phases:
        return
    raise exception.BackupConflict(
        f'backup {record.backup_id} is {record.phase}: {_ADVICE[record.phase]}')


def check_same(record: journals.Record, instance_uuid: str, superposition_id: str) -> None:
    """Check that the start of a backup is repeated with the same server and volumes.

    :raises BackupConflict: it is of others, or has ended
    """
    if (record.instance_uuid, record.superposition_id) != (instance_uuid, superposition_id):
        raise exception.BackupConflict(
            f'backup {record.backup_id} is of server {record.instance_uuid} in '
            f'superposition {record.superposition_id}: use another id')
    if record.phase in journals.ENDED:
        raise exception.BackupConflict(
            f'backup {record.backup_id} is {record.phase}: use another id')
