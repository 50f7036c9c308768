# SPDX-License-Identifier: Apache-2.0
"""The primaries of a round: how each is started, and what its journal says."""

import dataclasses
import math
import pathlib

from specreds_nova import cache_policy
from testing.race import disks
from testing.race import history
from testing.race import hosts
from testing.race import processes
from testing.race import qemu
from testing.race import site as sites
from testing.race import writer


def start(site: sites.Site, shape: disks.Shape, images: disks.Disks, directory: pathlib.Path,
          name: str, spec: writer.Spec, host: hosts.Host | None) -> processes.WriterProcess:
    """Start a writer on the disks of a round, with librbd of its own or with QEMU's."""
    spec = dataclasses.replace(spec, cache=shape.cache)
    if shape.qemu:
        return qemu.QemuPrimary(site.cluster, directory, name, images.named(), spec, host,
                                shape.cache or cache_policy.SAFE)
    return processes.WriterProcess(directory, name, images.named(), dataclasses.replace(
        spec, conf=str(site.conf), user=site.cluster.user), host)


def party(shape: disks.Shape, process: processes.WriterProcess, *,
          doubted: float = math.inf) -> history.Party:
    """Return the operations of a primary.

    :param doubted: as in :class:`history.Party`
    """
    return history.Party(process.ops(), volatile=shape.cache == cache_policy.DEFAULT,
                         loose=shape.qemu, doubted=doubted)
