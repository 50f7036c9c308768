# SPDX-License-Identifier: Apache-2.0
"""Which backups of this host are ready: their own signs, watched for as their owners ask."""

from collections.abc import Callable
import dataclasses
import threading
from typing import Any

from oslo_log import log as logging

from specreds_nova.beats import message
from specreds_nova.host.backup import domain as backup_domain
from specreds_nova.host.backup import host as backup_host
from specreds_nova.host.backup import journal as journals
from specreds_nova.host.ready import conditions
from specreds_nova.host.ready import watching

LOG = logging.getLogger(__name__)


def condition_of(instance: Any) -> conditions.Condition:
    """Return the condition of a server; the default one if its metadata are malformed."""
    try:
        return conditions.parse(instance)
    except conditions.BadCondition as exc:
        LOG.warning('using the default condition of readiness: %s', exc, instance=instance)
        return conditions.default(instance, refused=str(exc))


def devices(instance: Any) -> list[Any]:
    """Return the devices by which a server can report that it is ready.

    Malformed metadata do not keep the server from starting.
    """
    try:
        return list(condition_of(instance).devices())
    except Exception as exc:
        LOG.warning('the server has no device to report readiness with: %s', exc,
                    instance=instance)
        return []


class Watches:
    """Watches the backups of this host for the sign that they are ready.

    :param launcher: finds their domains
    :param box: reaches a sealed guest
    :ivar notify: called with the id of each backup that becomes ready; must not block
    :ivar then: called next; may take its time
    """

    def __init__(self, launcher: backup_domain.Launcher, box: Any) -> None:
        self._launcher = launcher
        self._box = box
        self._lock = threading.Lock()
        self._watches: dict[str, Any] = {}
        self._frames: dict[str, Any] = {}
        self.notify: Callable[[str], None] = lambda backup_id: None
        self.then: Callable[[str], None] = lambda backup_id: None

    def begin(self, record: journals.Record) -> None:
        """Watch a running backup. Do nothing if it is watched already.

        If the sign cannot be watched, ``ready_detail`` says why; whether to go on without it is
        the caller's decision.
        """
        with self._lock:
            if record.backup_id in self._watches or record.ready:
                return
        try:
            instance = backup_host.find_instance(backup_host.admin_context(), record.instance_uuid)
            guest = self._launcher.backup(record.backup_id, record.instance_uuid)
            if instance is None or guest is None:
                return
            condition = condition_of(instance)
            if (condition.kind is conditions.Kind.TCP
                    and self._box.namespace(record.backup_id) is None):
                condition = dataclasses.replace(
                    conditions.default(instance, refused='the backup has no port'),
                    timeout=condition.timeout, owned=condition.owned)
            if condition.owned:
                record.ready_timeout = condition.timeout
            watch = watching.watch(condition, guest, self._box, record.backup_id,
                                then=lambda: self._ready(record.backup_id))
            frames = None if condition.explicit else watching.watch_frames(
                condition, guest, self._box, record.backup_id,
                then=lambda: self._sent_frame(record))
        except Exception as exc:
            LOG.exception('cannot watch backup %s for readiness', record.backup_id)
            record.ready_detail = f'cannot be watched: {exc}'
            return
        with self._lock:
            self._watches[record.backup_id] = watch
            if frames is not None:
                self._frames[record.backup_id] = frames

    def look(self, record: journals.Record) -> tuple[bool, str]:
        """Return whether a backup is ready, and the details of its sign."""
        with self._lock:
            watch = self._watches.get(record.backup_id)
        if watch is not None:
            record.ready = record.ready or bool(watch.ready)
            record.ready_detail = str(watch.detail)
        return record.ready, record.ready_detail

    def is_late(self, backup_id: str) -> bool:
        """Return whether a backup was watched until its time was over, and was not ready."""
        with self._lock:
            watch = self._watches.get(backup_id)
        return watch is not None and bool(watch.late)

    def opened(self, record: journals.Record) -> None:
        """Watch a promoted backup only until it is ready."""
        with self._lock:
            frames = self._frames.pop(record.backup_id, None)
        if frames is not None:
            frames.stop()
        if self.look(record)[0]:
            self.end(record.backup_id)

    def end(self, backup_id: str) -> None:
        """Stop watching a backup. Do nothing if it is not watched."""
        with self._lock:
            watches = self._watches.pop(backup_id, None), self._frames.pop(backup_id, None)
        for watch in watches:
            if watch is not None:
                watch.stop()

    def _ready(self, backup_id: str) -> None:
        self.notify(backup_id)
        self.then(backup_id)

    def _sent_frame(self, record: journals.Record) -> None:
        record.first_frame = True
        self.notify(message.first_frame(record.backup_id))
        self.then(record.backup_id)
