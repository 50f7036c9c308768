# SPDX-License-Identifier: Apache-2.0
"""What a host answers about its backups."""

from collections.abc import Callable
from typing import Any

from nova import exception as nova_exception
from oslo_log import log as logging

from specreds_nova.host.backup import host as backup_host
from specreds_nova.host.backup import journal as journals
from specreds_nova.host.backup import readiness

LOG = logging.getLogger(__name__)

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
