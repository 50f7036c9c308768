# SPDX-License-Identifier: Apache-2.0
"""The Ceph or cloud that the benchmarks run on, and the facts about the machine."""

from collections.abc import Iterator
import contextlib
import dataclasses
import os
import pathlib
import platform
import subprocess
import tempfile
from typing import Protocol

from bench import progress
from cloud import ceph
from cloud import cloud as openstack_cloud
from cloud import commands
from cloud import directory
from specreds_cinder import superposition as sp

_TIMEOUT = 60.0


@dataclasses.dataclass(frozen=True)
class Environment:
    """Everything that a benchmark needs to run.

    :param quick: run fewer rounds on smaller images, for the same figures
    :param rounds: number of interleaved rounds, of which the median counts
    :param scratch: directory for sockets and job files
    :param figures: directory for drawn figures, None to draw none
    """

    ceph: ceph.Ceph
    cluster: sp.Cluster
    protocol: sp.Protocol
    progress: progress.Progress
    quick: bool
    rounds: int
    scratch: pathlib.Path
    figures: pathlib.Path | None


class _Service(Protocol):
    """A Ceph or a cloud that can be started and wiped."""

    def up(self, progress: commands.Progress) -> None: ...

    def down(self) -> None: ...

    def wipe(self) -> None: ...


@contextlib.contextmanager
def cluster(data: pathlib.Path, port: int, progress: progress.Progress,
            keep: bool, monitors: int = 1, address: str | None = None,
            osds: int | None = None) -> Iterator[ceph.Ceph]:
    """Run a new Ceph while the context lasts, and keep its logs after a failure.

    :param data: its directory; it is wiped first
    :param port: first of its ports
    :param keep: leave it up
    :param monitors: number of monitors
    :param address: listen on this address instead of the loopback's
    :param osds: number of OSDs; None for the usual number
    :raises CloudError: it did not come up
    """
    own = ceph.Ceph(data, port=port, monitors=monitors, address=address, osds=osds)
    with _alone(data):
        ceph.Ceph(data).wipe(progress.say)
        with _running(own, progress, keep, own.files.log, own.admin_conf):
            yield own


@contextlib.contextmanager
def cloud(data: pathlib.Path, port: int, progress: progress.Progress,
          keep: bool, hosts: int, engines: int = 0, network: str | None = None
          ) -> Iterator[openstack_cloud.Cloud]:
    """Run a new OpenStack while the context lasts, with the parameters of `cluster` and:

    :param hosts: number of compute hosts
    :param engines: number of processes that recover servers
    :param network: what connects servers, if not the cloud's default
    """
    own = openstack_cloud.Cloud(data, port=port, hosts=hosts, engines=engines,
                                network=network)
    with _alone(data):
        openstack_cloud.Cloud(data).wipe(progress.say)
        with _running(own, progress, keep, own.log_dir, own.openrc()):
            yield own


def _alone(data: pathlib.Path) -> contextlib.AbstractContextManager[None]:
    return directory.alone(data, data.with_name(f'{data.name}-lock'), 'bench',
                           'choose another one with --data, and other ports with --port')


@contextlib.contextmanager
def _running(own: _Service, progress: progress.Progress, keep: bool, logs: pathlib.Path,
             way_in: pathlib.Path) -> Iterator[None]:
    try:
        own.up(progress.say)
        yield
    except BaseException:
        own.down()
        progress.say(f'the logs are in {logs}')
        raise
    if keep:
        progress.say(f'left up: {way_in}')
    else:
        progress.say('removing what was measured on')
        own.wipe()


@contextlib.contextmanager
def environment(own: ceph.Ceph, progress: progress.Progress, quick: bool, rounds: int,
                figures: pathlib.Path | None) -> Iterator[Environment]:
    """Connect to the cluster as Cinder would, while the context lasts."""
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
    with connected(own) as connection, \
            tempfile.TemporaryDirectory(prefix='specreds-bench-') as scratch:
        yield Environment(own, connection, sp.Protocol(connection), progress, quick, rounds,
                          pathlib.Path(scratch), figures)


def connected(own: ceph.Ceph, kind: type[sp.Cluster] = sp.Cluster) -> sp.Cluster:
    """Return a new connection to the cluster.

    :param kind: its class
    """
    return kind(conffile=str(own.conf), user='cinder', timeout=_TIMEOUT)


def facts() -> dict[str, str | float]:
    """Describe the machine, so that results can be compared."""
    return {
        'environment.cores': len(os.sched_getaffinity(0)),
        'environment.memory_gib': round(
            os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30, 1),
        'environment.load_before': os.getloadavg()[0],
        'environment.kernel': platform.release(),
        'environment.ceph': _version(['ceph', '--version']),
        'environment.qemu': _version(['qemu-storage-daemon', '--version']),
        'environment.fio': _version(['fio', '--version']),
    }


def _version(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired):
        return 'unknown'
    return (done.stdout.splitlines() or ['unknown'])[0].strip()
