# SPDX-License-Identifier: Apache-2.0
"""This host's record of each backup: one file each, which survives a restart of the host.

A change is on disk before anything that depends on it happens, so that a file found after a crash
says what may have to be undone.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import json
import os
import pathlib
import threading
import time
from typing import Any

from oslo_log import log as logging
from oslo_utils import uuidutils

LOG = logging.getLogger(__name__)

STARTING = 'starting'
RUNNING = 'running'
HARDENED = 'hardened'
PROMOTED = 'promoted'
ADOPTED = 'adopted'
MERGED = 'merged'
ABORTING = 'aborting'
ABORTED = 'aborted'
FAILED = 'failed'

# Nova does not know the domain as the server yet, so the domain is hidden from Nova.
HIDDEN = frozenset({STARTING, RUNNING, HARDENED, PROMOTED, ABORTING})
# Nothing of the backup is left on the host.
ENDED = frozenset({ABORTED, FAILED})
# The backup is the server, and the server is one of this host's.
OURS = frozenset({ADOPTED, MERGED})
# The record may be forgotten.
FINISHED = ENDED | {MERGED}


@dataclasses.dataclass
class Record:
    """One backup on this host.

    :ivar phase: one of the above
    :ivar opened: the box lets the guest's frames out
    :ivar adopting: Nova's evacuation of the server to this host has reached the adoption
    :ivar primary: the host that the server was on
    :ivar volume_ids: the server's volumes
    :ivar numa_topology: what is claimed of this host's NUMA nodes, dedicated CPUs and huge pages,
        as a primitive of Nova's InstanceNUMATopology; None if the server has no topology
    :ivar topology_offered: Nova's scheduler sees that claim as free, so that it allows the
        evacuation to this host
    :ivar ready_timeout: seconds after which the backup counts as late; None if the server's
        metadata name no time
    :ivar first_frame: its guest has sent a frame after its first write to a disk, and its owner
        has set no condition
    :ivar timings_ms: duration of each step, in milliseconds
    :ivar merge: progress of the merge, as the merger reports it
    """

    backup_id: str
    instance_uuid: str
    superposition_id: str
    host: str
    phase: str = STARTING
    instance_name: str = ''
    primary: str = ''
    volume_ids: list[str] = dataclasses.field(default_factory=list)
    numa_topology: dict[str, Any] | None = None
    topology_offered: bool = False
    opened: bool = False
    adopting: bool = False
    ready: bool = False
    ready_detail: str = ''
    ready_timeout: float | None = None
    first_frame: bool = False
    error: str | None = None
    timings_ms: dict[str, float] = dataclasses.field(default_factory=dict)
    merge: dict[str, Any] | None = None
    created_at: float = dataclasses.field(default_factory=time.time)
    updated_at: float = 0.0

    @contextlib.contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Note the duration of a step."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.timings_ms[what] = round((time.monotonic() - began) * 1e3, 1)


_FIELDS = frozenset(field.name for field in dataclasses.fields(Record))


class Journal:
    """The records of this host.

    :param directory: where the files are; made when the first one is written
    """

    def __init__(self, directory: str) -> None:
        self._directory = pathlib.Path(directory)
        self._lock = threading.Lock()
        self._records: dict[str, Record] = {}

    def load(self) -> None:
        """Read the records that an earlier nova-compute wrote.

        A file that cannot be read is kept and reported: it may stand for a running domain.
        """
        for path in sorted(self._directory.glob('*.json')):
            if not uuidutils.is_uuid_like(path.stem):
                # Other modules keep files there, too.
                continue
            try:
                fields = json.loads(path.read_text())
                record = Record(**{name: value for name, value in fields.items()
                                   if name in _FIELDS})
            except (OSError, ValueError, TypeError) as exc:
                LOG.error('%s cannot be read (%s): if a backup of it runs here, abort its '
                          'superposition, destroy the domain and remove the file', path, exc)
                continue
            with self._lock:
                self._records[record.backup_id] = record
            for unfinished in self._directory.glob(f'.{path.name}.*.new'):
                unfinished.unlink()

    def save(self, record: Record) -> None:
        """Write a record. When this returns, it is on disk."""
        record.updated_at = time.time()
        path = self._path(record.backup_id)
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_name(f'.{path.name}.{threading.get_ident()}.new')
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, 'w') as file:
            json.dump(dataclasses.asdict(record), file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        self._sync()
        with self._lock:
            self._records[record.backup_id] = record

    def forget(self, backup_id: str) -> None:
        """Remove a record. Do nothing if there is none."""
        path = self._path(backup_id)
        if path.exists():
            path.unlink()
            self._sync()
        with self._lock:
            self._records.pop(backup_id, None)

    def get(self, backup_id: str) -> Record | None:
        """Return the record of a backup, or None."""
        with self._lock:
            return self._records.get(backup_id)

    def records(self) -> list[Record]:
        """Return all records, the oldest first."""
        with self._lock:
            return sorted(self._records.values(), key=lambda record: record.created_at)

    def of_instance(self, instance_uuid: str) -> Record | None:
        """Return the record of a server's backup of which something is left on this host."""
        with self._lock:
            return next((record for record in self._records.values()
                         if record.instance_uuid == instance_uuid
                         and record.phase not in ENDED and record.phase != MERGED), None)

    def adopted(self, instance_uuid: str) -> str | None:
        """Return the superposition whose overlays a server of this host uses, or None."""
        record = self.of_instance(instance_uuid)
        if record is None or not (record.phase in OURS or record.phase == PROMOTED):
            return None
        return record.superposition_id

    def expected(self, instance_uuid: str) -> str | None:
        """Return the host of a server whose promoted backup Nova has not adopted here yet.

        :returns: '' if the host is unknown, None if there is no such backup
        """
        record = self.of_instance(instance_uuid)
        if record is None or record.phase != PROMOTED:
            return None
        return record.primary or ''

    def hidden(self) -> frozenset[str]:
        """Return the UUIDs of the servers whose domains on this host are hidden from Nova."""
        with self._lock:
            return frozenset(record.instance_uuid for record in self._records.values()
                             if record.phase in HIDDEN)

    def _path(self, backup_id: str) -> pathlib.Path:
        return self._directory / f'{backup_id}.json'

    def _sync(self) -> None:
        """Make a change of the directory itself durable."""
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
