# SPDX-License-Identifier: Apache-2.0
"""The two processes that race for a volume: a primary and a backup."""

import contextlib
import json
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from typing import Any

import nbd
import tenacity

from cloud import deadline
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.overlay import nodes
from specreds_cinder.superposition.overlay import qmp_backup
from specreds_cinder.superposition.truth import record as records

_PRIMARY = 'specreds_cinder.tests.functional.primary'
_START_SECONDS = 30
_ANSWER_SECONDS = 90
_until_up = tenacity.retry(
    retry=tenacity.retry_if_exception_type((OSError, nbd.Error)), reraise=True,
    stop=lambda state: (state.seconds_since_start or 0) > deadline.extended(_START_SECONDS),
    wait=tenacity.wait_fixed(0.02))


class Process:
    """A process with a short directory of its own for its sockets."""

    def __init__(self) -> None:
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix='race-'))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: list[str]) -> None:
        """Start it; its output is in its directory."""
        with (self.directory / 'log').open('wb') as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=log)

    def signal(self, number: int) -> None:
        """Send a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it at once, as a power failure would."""
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self) -> None:
        """Wait for its end, and remove its directory."""
        assert self._process is not None
        self._process.wait(_ANSWER_SECONDS)
        for path in self.directory.glob('*'):
            path.unlink()
        with contextlib.suppress(FileNotFoundError):
            self.directory.rmdir()

    @property
    def running(self) -> bool:
        """Return whether it has not ended."""
        return self._process is not None and self._process.poll() is None


class Primary(Process):
    """A process that has images open and writes on demand.

    :param images: opened in this order
    :param policy: of librbd's cache; empty for no cache
    """

    def __init__(self, cluster: ceph.Cluster, *images: records.VolumeRef,
                 policy: str = '') -> None:
        super().__init__()
        self.path = str(self.directory / 'socket')
        self.start([sys.executable, '-m', _PRIMARY, cluster.conffile, cluster.user, policy,
                    self.path, *map(str, images)])
        self._connection = _until_up(connect)(self.path)
        self.clients = frozenset(ask(self._connection, 'clients')['clients'])

    def write(self, offset: int, byte: int = 0x77, length: int = 4096, disk: int = 0) -> int:
        """Write, and return 0 for an acknowledgement, or a negative error number."""
        return self.ask('write', offset=offset, byte=byte, length=length, disk=disk)

    def ask(self, do: str, **words: Any) -> int:
        """Send another request, and return 0 for success, or a negative error number."""
        code: int = ask(self._connection, do, **words)['code']
        return code

    def read(self, offset: int, length: int = 4096, disk: int = 0) -> bytes:
        """Read."""
        answer = ask(self._connection, 'read', offset=offset, length=length, disk=disk)
        return bytes.fromhex(answer['data'])

    def close(self) -> None:
        """Let the process close its images and end."""
        self.ask('close')
        self.wait()

    def end(self) -> None:
        """End it in whatever state it is: closed if its images work, killed otherwise."""
        if not self.running:
            return
        self.signal(signal.SIGCONT)
        if self.ask('flush') == 0:
            self.close()
        else:
            self.kill()


class Backup(Process):
    """A qemu-storage-daemon with the child versions of a record, exported by NBD.

    :param speculative: as for :func:`nodes.overlay_nodes`
    """

    def __init__(self, cluster: ceph.Cluster, record: records.Record, *,
                 speculative: bool = True) -> None:
        super().__init__()
        self._cluster = cluster
        self.prefixes = [f'sp{index}' for index in range(len(record.volumes))]
        self.qmp = str(self.directory / 'qmp')
        self.nbd = str(self.directory / 'nbd')
        self.suspended: list[bool] = []
        self._quiet = False
        # The test that plays the guest holds this while it writes.
        self.running_guest = threading.Lock()
        command = ['qemu-storage-daemon', '--chardev',
                   f'socket,id=q,path={self.qmp},server=on,wait=off', '--monitor', 'chardev=q',
                   '--nbd-server', f'addr.type=unix,addr.path={self.nbd},max-connections=0']
        for prefix, volume in zip(self.prefixes, record.volumes, strict=True):
            for node in nodes.overlay_nodes(cluster, volume, speculative=speculative,
                                            prefix=prefix):
                command += ['--blockdev', json.dumps(node)]
            command += ['--export', f'nbd,id=e-{prefix},node-name={prefix},name={prefix},'
                                    'writable=on']
        self.start(command)
        self.disks = [self._disk(prefix) for prefix in self.prefixes]

    @_until_up
    def _disk(self, export: str) -> 'nbd.NBD':
        disk = nbd.NBD()
        # A sparse read makes QEMU ask librbd for the image's allocation, and librbd takes the
        # volume's exclusive lock for that: no guest's read does so.
        disk.set_request_structured_replies(False)
        disk.set_export_name(export)
        disk.connect_unix(self.nbd)
        return disk

    @property
    def hook(self) -> qmp_backup.QmpBackup:
        """Return the hook of a collapse and a merge."""
        return qmp_backup.QmpBackup(self._cluster, self.qmp, self.prefixes,
                                    quiesce=self._quiesce)

    def _quiesce(self, quiet: bool) -> None:
        # A paused guest may be paused again, and one that runs may be resumed.
        if quiet != self._quiet:
            self.suspended.append(quiet)
            (self.running_guest.acquire if quiet else self.running_guest.release)()
            self._quiet = quiet

    def end(self) -> None:
        """Stop it cleanly."""
        if self.running:
            self.signal(signal.SIGTERM)
            self.wait()


def connect(path: str) -> socket.socket:
    """Connect to a primary's socket."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_ANSWER_SECONDS)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def ask(connection: socket.socket, do: str, **words: Any) -> dict[str, Any]:
    """Send a request to a primary, and wait for its answer."""
    connection.sendall(json.dumps({'do': do, **words}).encode() + b'\n')
    line = b''
    while not line.endswith(b'\n'):
        part = connection.recv(1 << 20)
        if not part:
            # It has ended, which is the answer to "close".
            return {'code': 0}
        line += part
    answer: dict[str, Any] = json.loads(line)
    return answer


def child_io(cluster: ceph.Cluster, volume: records.Volume, *commands: str) -> str:
    """Run qemu-io's commands on a child version that is not open."""
    command = ['qemu-io']
    for text in commands:
        command += ['-c', text]
    done = subprocess.run([*command, 'json:' + json.dumps(nodes.offline_chain(cluster, volume))],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
                          timeout=_ANSWER_SECONDS)
    return done.stdout
