# SPDX-License-Identifier: Apache-2.0
"""The pools of the cloud's own back ends, and their Ceph users."""

from collections.abc import Sequence
import pathlib

from cloud import caps
from cloud import ceph
from cloud import ceph_conf
from cloud.openstack import files as private
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
            _introduce(cluster, backend, conf)


def _introduce(cluster: ceph.Ceph, backend: layout.Backend, conf: pathlib.Path) -> None:
    """Make a Ceph user that can use the back end's pool only."""
    entity = f'client.{backend.user}'
    grants = caps.cinder([backend.pool])
    keyring = cluster.admin(['auth', 'get-or-create', entity,
                             *(word for item in grants.items() for word in item)])
    private.write(cluster.files.keyring(entity), keyring)
    private.write(conf, ceph_conf.client(cluster.files, cluster.settings, entity))
