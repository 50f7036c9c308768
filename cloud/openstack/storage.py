# SPDX-License-Identifier: Apache-2.0
"""The pools of the cloud's own back ends and of its images, and their Ceph users."""

from collections.abc import Mapping, Sequence
import pathlib

from cloud import caps
from cloud import ceph
from cloud import ceph_conf
from cloud.openstack import files as private
from cloud.openstack import glance
from cloud.openstack import layout


def provision(cluster: ceph.Ceph, backends: Sequence[layout.Backend]) -> None:
    """Make what is missing; the first back end has what the cluster was created with.

    :raises CloudError: Ceph refused
    """
    pools = cluster.pools()
    for backend in backends[1:]:
        if backend.pool not in pools:
            cluster.create_pool(backend.pool, grant=False)
        conf = pathlib.Path(backend.conf)
        if not conf.exists():
            _introduce(cluster, backend.user, caps.cinder([backend.pool]), conf)


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
    for backend in backends:
        written = [backend.pool, *(disks if backend == backends[0] else ())]
        cluster.admin(['auth', 'caps', f'client.{backend.user}',
                       *_words(caps.cinder(written, [glance.POOL]))])
    _introduce(cluster, glance.CEPH_USER, caps.glance(glance.POOL), conf)


def _introduce(cluster: ceph.Ceph, user: str, grants: Mapping[str, str],
               conf: pathlib.Path) -> None:
    """Make a Ceph user, and its configuration file."""
    entity = f'client.{user}'
    keyring = cluster.admin(['auth', 'get-or-create', entity, *_words(grants)])
    private.write(cluster.files.keyring(entity), keyring)
    private.write(conf, ceph_conf.client(cluster.files, cluster.settings, entity))


def _words(grants: Mapping[str, str]) -> list[str]:
    return [word for item in grants.items() for word in item]
