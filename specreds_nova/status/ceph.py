# SPDX-License-Identifier: Apache-2.0
"""Check the capabilities of Cinder's user and its pools, without changing anything in Ceph."""

from collections.abc import Iterator

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import overrides
from specreds_cinder.superposition.exclusion import fence
from specreds_cinder.superposition.truth import record as records
from specreds_nova.status import cinder
from specreds_nova.status import files
from specreds_nova.status import findings

_TIMEOUT_S = 5.0
# An address of the documentation network, which no client has: removing it from the blocklist
# changes nothing, but needs the capability.
_NOBODY = '192.0.2.1:0/1'


def capabilities(config: files.Files) -> Iterator[findings.Finding]:
    """Check the users of all back ends that have the driver."""
    for name in cinder.backends(config):
        user = config.get(name, 'rbd_user')
        conffile = config.get(name, 'rbd_ceph_conf')
        pool = config.get(name, 'rbd_pool', 'rbd')
        if not user or not conffile:
            yield findings.failure(f'{config}: set [{name}] rbd_user and rbd_ceph_conf')
            continue
        try:
            with ceph.Cluster(conffile, user, _TIMEOUT_S) as cluster:
                yield from _pool(cluster, name, pool)
                guard = fence.Fence(cluster, 600)
                guard.remaining()
                guard.open([_NOBODY])
        except errors.SuperError as exc:
            yield findings.failure(f'back end {name}: {exc}')


def _pool(cluster: ceph.Cluster, backend: str, wanted: str) -> Iterator[findings.Finding]:
    pool = next((candidate for candidate in cluster.pools().values()
                 if candidate.name == wanted), None)
    if pool is None:
        yield findings.failure(f'back end {backend}: Ceph has no pool {wanted}')
    elif pool.cache_tier:
        yield findings.failure(f'back end {backend}: pool {wanted} has a cache tier: its volumes '
                               'cannot be superposed')
    else:
        for reason in overrides.of_pool(cluster, records.Home(wanted)):
            yield findings.failure(f'back end {backend}: no volume of pool {wanted} can be '
                                   f'superposed: {reason}')
