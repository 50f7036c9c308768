# SPDX-License-Identifier: Apache-2.0
"""Which operations the phase of a backup allows, and what to do instead."""

from specreds_nova import exception
from specreds_nova.host.backup import journal as journals

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
