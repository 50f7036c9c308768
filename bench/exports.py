# SPDX-License-Identifier: Apache-2.0
"""Export every kind of disk through the same path: NBD of qemu-storage-daemon."""

from collections.abc import Mapping, Sequence
import contextlib
import json
import pathlib
import subprocess
import tempfile
import time
from typing import Any

_START_TIMEOUT = 30.0
_STOP_TIMEOUT = 60.0


class ExportFailed(Exception):
    """qemu-storage-daemon did not start."""


class Export:
    """A chain of block nodes as an NBD export on a unix socket, while the context lasts.

    :param nodes: as for ``--blockdev``; the last one is exported
    :param scratch: directory for its sockets and its log
    """

    def __init__(self, nodes: Sequence[Mapping[str, Any]], scratch: pathlib.Path) -> None:
        self._nodes = nodes
        self._directory = pathlib.Path(tempfile.mkdtemp(prefix='qsd-', dir=scratch))
        self._socket = self._directory / 'nbd'
        self.monitor = self._directory / 'qmp'
        self._log = self._directory / 'log'
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """The URI of the export for NBD clients."""
        return f'nbd+unix:///disk?socket={self._socket}'

    def __enter__(self) -> 'Export':
        with self._log.open('wb') as log:
            try:
                self._process = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL,
                                                 stdout=log, stderr=log)
            except FileNotFoundError:
                raise ExportFailed('qemu-storage-daemon is missing: install qemu-utils or '
                                   'qemu-system-common') from None
        deadline = time.monotonic() + _START_TIMEOUT
        while not self._socket.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise ExportFailed(f'qemu-storage-daemon did not start: '
                                   f'{self._log.read_text().strip()[-2000:]}')
            time.sleep(0.01)
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the export after it has written out its caches."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        with contextlib.suppress(FileNotFoundError):
            self._socket.unlink()

    def _command(self) -> list[str]:
        command = ['qemu-storage-daemon']
        for node in self._nodes:
            command += ['--blockdev', json.dumps(node)]
        top = self._nodes[-1]['node-name']
        return [
            *command, '--nbd-server', f'addr.type=unix,addr.path={self._socket}',
            '--export', f'type=nbd,id=disk,node-name={top},name=disk,writable=on',
            '--chardev', f'socket,id=monitor,path={self.monitor},server=on,wait=off',
            '--monitor', 'chardev=monitor']
