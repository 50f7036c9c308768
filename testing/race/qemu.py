# SPDX-License-Identifier: Apache-2.0
"""A primary as QEMU runs it: qemu-storage-daemon opens the volumes with cache=writeback."""

import pathlib
from typing import Any

from specreds_cinder import superposition
from specreds_nova import cache_policy
from testing.race import backup
from testing.race import hosts
from testing.race import processes
from testing.race import writer


class QemuPrimary(processes.WriterProcess):
    """A writer on the exports of a daemon, which share their fate: they are one host's.

    :param volumes: as in :meth:`disks.Disks.named`
    :param spec: of the writer; its disks are filled in
    :param policy: of librbd's cache
    """

    def __init__(self, cluster: superposition.Cluster, directory: pathlib.Path, name: str,
                 volumes: list[tuple[int, list[str]]], spec: writer.Spec,
                 host: hosts.Host | None = None, policy: str = cache_policy.SAFE) -> None:
        prefixes = [f'disk{index}' for index in range(len(volumes))]
        directory = directory / name
        directory.mkdir()
        conf = directory / 'ceph.conf'
        # The file ends with section client.
        conf.write_text(f'{pathlib.Path(cluster.conffile).read_text()}'
                        f'{cache_policy.OPTION} = {policy}\n')
        self._daemon = backup.StorageDaemon(
            [_node(conf, cluster.user, prefix, *place) for prefix, (_size, place) in zip(
                prefixes, volumes, strict=True)], prefixes, directory, host)
        try:
            super().__init__(directory, name, [
                (size, [self._daemon.socket, prefix])
                for prefix, (size, _place) in zip(prefixes, volumes, strict=True)], spec, host)
        except BaseException:
            self._daemon.kill()
            raise

    def stop(self) -> None:
        """Stop daemon and writer, so that they hang."""
        self._daemon.hang(cut=False)
        super().stop()

    def wake(self) -> None:
        """Continue both, or heal the link of their host."""
        super().wake()
        self._daemon.wake()

    def kill(self) -> None:
        """Kill both at once."""
        # The writer first: it would note errors that no guest of a dead QEMU sees.
        super().kill()
        self._daemon.kill()


def _node(conf: pathlib.Path, user: str, name: str, pool: str, namespace: str,
          image: str) -> dict[str, Any]:
    place = {'namespace': namespace} if namespace else {}
    return {'driver': 'rbd', 'node-name': name, 'pool': pool, **place, 'image': image,
            'conf': str(conf), 'user': user, 'discard': 'unmap',
            'cache': {'direct': False, 'no-flush': False}}
