# SPDX-License-Identifier: Apache-2.0
"""The pools of the cloud's own back ends and of its images, and their Ceph users."""

from collections.abc import Iterable, Mapping, Sequence
import pathlib

from cloud import caps
from cloud import ceph
from cloud import ceph_conf
from cloud.openstack import files as private
from cloud.openstack import glance
from cloud.openstack import layout


def provision(cluster: ceph.Ceph, backends: Sequence[layout.Backend],
              disks: Sequence[str] = ()) -> None:
    """Make what is missing; the first back end has what the cluster was created with.

    :param disks: pools of Nova's disks, for the first back end's user
    :raises CloudError: Ceph refused
    """
    pools = cluster.pools()
    missing = [backend for backend in backends if backend.pool not in pools]
    for backend in missing:
        cluster.create_pool(backend.pool, grant=False)
    for backend in backends:
        conf = pathlib.Path(backend.conf)
        if not conf.exists():
            _introduce(cluster, backend.user, caps.cinder([backend.pool]), conf)
    if missing:
        _grant(cluster, backends, [pool for pool in disks if pool in pools],
               [pool for pool in (glance.POOL,) if pool in pools])


def provision_images(cluster: ceph.Ceph, backends: Sequence[layout.Backend],
                     conf: pathlib.Path, disks: Sequence[str] = ()) -> None:
    """Make Glance's pool, which the back ends' users may read, and its Ceph user.

    :param disks: pools of Nova's disks, which are made as well, for the first back end's user
    :param conf: the configuration file of that user; written last, so nothing is left to be
        done where it is
    :raises CloudError: Ceph refused
    """
    if conf.exists():
        return
    for pool in {glance.POOL, *disks} - set(cluster.pools()):
        cluster.create_pool(pool, grant=False)
    _grant(cluster, backends, disks, [glance.POOL])
    _introduce(cluster, glance.CEPH_USER, caps.glance(glance.POOL), conf)


def _grant(cluster: ceph.Ceph, backends: Sequence[layout.Backend], disks: Iterable[str],
           images: Iterable[str]) -> None:
    """Grant each user of the back ends its pools, and the first one the pools of Nova's disks."""
    pools = {backends[0].user: set(disks)}
    for backend in backends:
        pools.setdefault(backend.user, set()).add(backend.pool)
    for user, written in pools.items():
        cluster.admin(['auth', 'caps', f'client.{user}', *_words(caps.cinder(written, images))])


def _introduce(cluster: ceph.Ceph, user: str, grants: Mapping[str, str],
               conf: pathlib.Path) -> None:
    """Make a Ceph user, and its configuration file."""
    entity = f'client.{user}'
    keyring = cluster.admin(['auth', 'get-or-create', entity, *_words(grants)])
    private.write(cluster.files.keyring(entity), keyring)
    private.write(conf, ceph_conf.client(cluster.files, cluster.settings, entity))


def _words(grants: Mapping[str, str]) -> list[str]:
    return [word for item in grants.items() for word in item]
