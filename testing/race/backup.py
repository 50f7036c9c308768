# SPDX-License-Identifier: Apache-2.0
"""A backup without a guest: qemu-storage-daemon opens the child version for a writer."""

from collections.abc import Mapping, Sequence
import json
import pathlib
import signal
import subprocess
from typing import Any

from specreds_cinder import superposition
from specreds_cinder.superposition.overlay import nodes
from specreds_cinder.superposition.overlay import qmp_backup
from testing.race import blocks
from testing.race import control
from testing.race import history
from testing.race import hosts
from testing.race import processes
from testing.race import site as sites
from testing.race import writer

_START = 30.0
_STOP = 60.0


class StorageDaemon:
    """A qemu-storage-daemon that has block nodes open, and exports some of them.

    :param chain: the nodes, in the order in which QEMU adds them
    :param prefixes: by disk, the name of its top node and of its NBD export
    :param directory: for its sockets, with a short path
    :param host: where it runs; None for this machine
    :ivar prefixes: as given
    :ivar qmp: path of the QMP socket
    :ivar socket: path of the NBD socket
    """

    def __init__(self, chain: Sequence[Mapping[str, Any]], prefixes: Sequence[str],
                 directory: pathlib.Path, host: hosts.Host | None = None) -> None:
        self._host = host
        self._cut = False
        self.qmp = str(directory / 'qmp')
        self.socket = str(directory / 'nbd')
        self.prefixes = list(prefixes)
        self._stderr = directory / 'qsd.stderr'
        # QEMU writes it once everything on the command line exists.
        self._pidfile = directory / 'qsd.pid'
        command = [*(host.prefix if host else ()), 'qemu-storage-daemon',
                   '--pidfile', str(self._pidfile)]
        for node in chain:
            command += ['--blockdev', json.dumps(node)]
        command += ['--chardev', f'socket,id=qmp,path={self.qmp},server=on,wait=off',
                    '--monitor', 'chardev=qmp',
                    '--nbd-server', f'addr.type=unix,addr.path={self.socket},max-connections=0']
        for prefix in self.prefixes:
            command += ['--export', f'type=nbd,id={prefix},node-name={prefix},name={prefix},'
                                    'writable=on']
        with self._stderr.open('wb') as stderr:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=stderr,
                                             stdout=stderr, start_new_session=True)
        control.wait(self._started, 'qemu-storage-daemon does not start', _START)

    def _started(self) -> bool:
        if self._process.poll() is not None:
            raise control.WriterGone(
                f'qemu-storage-daemon ended by itself: {self._stderr.read_text().strip()}')
        return self._pidfile.exists()

    def kill(self) -> None:
        """Kill the daemon, and lose its caches."""
        self._process.kill()
        self._process.wait()

    def hang(self, *, cut: bool) -> None:
        """Stop the daemon, so that it hangs.

        :param cut: cut its host off instead, if it has one
        """
        if cut and self._host is not None:
            self._host.cut()
            self._cut = True
        else:
            self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Wake the daemon that hangs, or heal the link of its host."""
        if self._cut and self._host is not None:
            self._host.heal()
        else:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the daemon cleanly, or kill it if it does not end."""
        self._process.terminate()
        try:
            self._process.wait(_STOP)
        except subprocess.TimeoutExpired:
            self.kill()


class Racer:
    """The backup of a round: a daemon and a writer on its exports.

    :param spec: of the writer; its disks are filled in
    :param host: where the daemon runs; None for this machine
    """

    def __init__(self, cluster: superposition.Cluster, record: superposition.Record,
                 directory: pathlib.Path, spec: writer.Spec, sizes: list[int],
                 host: hosts.Host | None = None) -> None:
        self._cluster = cluster
        self.running = True
        self._killed = False
        prefixes = [f'sp{index}' for index in range(len(record.volumes))]
        self._daemon = StorageDaemon(
            [node for prefix, volume in zip(prefixes, record.volumes, strict=True)
             for node in nodes.overlay_nodes(cluster, volume, prefix=prefix)],
            prefixes, directory, host)
        disks = [(size, [self._daemon.socket, prefix])
                 for size, prefix in zip(sizes, self._daemon.prefixes, strict=True)]
        try:
            self._writer = processes.WriterProcess(directory, 'backup', disks, spec)
            self._writer.ready()
        except BaseException:
            self._daemon.kill()
            raise

    def mode(self, mode: control.Mode) -> None:
        """Change the mode of its writer."""
        if self.running:
            self._writer.mode(mode)

    def hook(self) -> superposition.QmpBackup:
        """Return the hook for collapse and merge."""
        return qmp_backup.QmpBackup(self._cluster, self._daemon.qmp, self._daemon.prefixes,
                                    self._writer.hold)

    def rest(self) -> None:
        """End the writer, and leave the daemon running."""
        self._writer.quit()

    def read(self) -> list[blocks.Values]:
        """Read the disks through the daemon."""
        return [sites.read_export(self._daemon.socket, prefix, index)
                for index, prefix in enumerate(self._daemon.prefixes)]

    def stop(self) -> None:
        """End writer and daemon cleanly."""
        if self.running:
            self._writer.quit()
            self._daemon.close()
            self.running = False

    def drop(self) -> None:
        """Kill the writer, and let the daemon close the images that exist."""
        if self.running:
            self._writer.kill()
            self._daemon.close()
            self.running = False

    def kill(self) -> None:
        """Kill daemon and writer, and lose their caches."""
        if self.running:
            # The daemon first: no write may be acknowledged that it has not received.
            self._daemon.kill()
            self._writer.kill()
            self.running = False
            self._killed = True

    def hang(self, *, cut: bool) -> None:
        """Make the daemon hang, which loses what is in its caches if it is fenced meanwhile.

        :param cut: cut its host off instead, if it has one
        """
        self._daemon.hang(cut=cut)
        self._killed = True

    def wake(self) -> None:
        """Wake the daemon."""
        self._daemon.wake()

    def party(self, barrier: tuple[float, float]) -> history.Party:
        """Return its operations.

        :param barrier: begin and end of the collapse that made its disks durable
        """
        return history.Party(self._writer.ops(), volatile=self._killed, barriers=[barrier],
                             loose=True)
