# SPDX-License-Identifier: Apache-2.0
"""Which servers that run here may lose what their guests have flushed, because of librbd's cache.

librbd reads its policy when QEMU opens an image. No program can ask QEMU later which one it has.
So a policy counts for a QEMU that was started after its last change: Ceph keeps the time of the
last change of a pool's options.
"""

from collections.abc import Iterator

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_nova import cache_policy
from specreds_nova import conf as nova_conf
from specreds_nova.sentinel import conf as sentinel_conf
from specreds_nova.sentinel import domains
from specreds_nova.sentinel import processes
from specreds_nova.sentinel import storages
from specreds_nova.status import files
from specreds_nova.status import findings

_GROUP = nova_conf.GROUP.name
_SYSTEM = 'qemu:///system'
_CEPH = '/etc/ceph/ceph.conf'
# Seconds by which the clocks of two hosts may differ.
_CLOCKS_S = 5.0
# Servers that a finding names.
_NAMED = 10


def running(config: files.Files) -> Iterator[findings.Finding]:
    """Check the servers that run on this host.

    :param config: of nova-compute
    """
    hypervisor = domains.Hypervisor(config.get('libvirt', 'connection_uri') or _SYSTEM)
    clusters = storages.Storages(
        config.get(_GROUP, 'sentinel_ceph_conf', _CEPH),
        dict(pair.partition(':')[::2] for pair in config.words(_GROUP, 'sentinel_clients')),
        sentinel_conf.TIMEOUT_S)
    try:
        exposed = _exposed(hypervisor, clusters)
    except (domains.HypervisorSilent, errors.SuperError) as exc:
        yield findings.warning(f'it is unknown whether servers lose what guests have flushed: '
                               f'{exc}')
        return
    finally:
        hypervisor.close()
    for what, servers in sorted(exposed.items()):
        others = f' and {len(servers) - _NAMED} more' if len(servers) > _NAMED else ''
        yield findings.warning(
            f'{what} servers {", ".join(sorted(servers)[:_NAMED])}{others}: if their host hangs, '
            f'and wakes while it is fenced, they may lose what their guests have flushed')


def _exposed(hypervisor: domains.Hypervisor, clusters: storages.Storages) -> dict[str, set[str]]:
    """Return the servers that may lose writes, by what has to be done about them."""
    exposed: dict[str, set[str]] = {}
    policies = _Policies(clusters)
    for uuid in hypervisor.running():
        domain, process = hypervisor.describe(uuid), processes.qemu(uuid)
        # A backup, and a promoted one, has a policy of its own.
        if domain is None or domain.backup_of is not None:
            continue
        for image in domain.images:
            if image.cached and (what := policies.missing(
                    image, process.began if process is not None else 0.0)):
                exposed.setdefault(what, set()).add(uuid)
    return exposed


class _Policies:
    """The policies of images, and since when they have them."""

    def __init__(self, clusters: storages.Storages) -> None:
        self._clusters = clusters
        self._connected: dict[str, ceph.Cluster] = {}

    def missing(self, image: domains.Image, began: float) -> str | None:
        """Return what has to be done until an image is written through; None if it is.

        :param began: the time at which QEMU was started
        """
        cluster = self._connected.setdefault(image.user, self._clusters.apart(image.user))
        policy, changed = volumes.option(cluster, image.ref, cache_policy.OPTION)
        if policy != cache_policy.SAFE:
            return (f'run "{cache_policy.setting(image.ref.pool)}", and then start or migrate '
                    f'anew')
        return None if began > changed + _CLOCKS_S else 'start or migrate anew'
