# SPDX-License-Identifier: Apache-2.0
"""The block nodes with which QEMU opens the volume and its overlay."""

from collections.abc import Mapping
from typing import Any

from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.truth import record as records

Node = dict[str, Any]

# Id of the secret object with the passphrase of an encrypted volume, for offline tools.
SECRET = 'volume-key'


def base_node(cluster: ceph.Cluster, volume: records.Volume, name: str, *,
              read_only: bool) -> Node:
    """Return the block node of the volume's own RBD image, as durable as Nova's default."""
    return _rbd(cluster, volume, volume.image, name, {'direct': True, 'no-flush': False},
                **{'read-only': read_only})


def overlay_nodes(cluster: ceph.Cluster, volume: records.Volume, *, speculative: bool = True,
                  prefix: str = 'sp0') -> list[Node]:
    """Return the block nodes of the second version, in the order in which QEMU adds them.

    The qcow2 header names no backing file, so the chain is explicit. The top node is named
    ``prefix``.

    :param speculative: ignore the guest's flushes; False once they have to be durable
    """
    cache = {'direct': False, 'no-flush': speculative}
    return [
        base_node(cluster, volume, f'{prefix}-base', read_only=True),
        _rbd(cluster, volume, volume.overlay, f'{prefix}-file', cache),
        {'driver': 'qcow2', 'node-name': prefix, 'file': f'{prefix}-file',
         'backing': f'{prefix}-base', 'discard': 'unmap', 'cache': dict(cache),
         # Each flush of the guest writes the dirty L2 entries: 4 KiB at a time, not a cluster.
         'l2-cache-entry-size': 4096},
    ]


def offline_chain(cluster: ceph.Cluster, volume: records.Volume) -> Node:
    """Return the second version as one nested node, for QEMU's offline tools.

    For an encrypted volume, the tool needs the secret object :data:`SECRET`.
    """
    base, file, top = overlay_nodes(cluster, volume, speculative=False)
    for node in (base, file, top):
        del node['node-name']
    del base['read-only']
    if volume.luks_bytes:
        base = {'driver': 'luks', 'key-secret': SECRET, 'file': base, 'discard': 'unmap',
                'cache': base['cache']}
        top['encrypt'] = {'format': 'luks', 'key-secret': SECRET}
    return {**top, 'file': file, 'backing': base}


def _rbd(cluster: ceph.Cluster, volume: records.Volume, image: str, name: str,
         cache: Mapping[str, bool], **more: object) -> Node:
    place = {'namespace': volume.namespace} if volume.namespace else {}
    return {'driver': 'rbd', 'node-name': name, 'pool': volume.pool, **place, 'image': image,
            'conf': cluster.conffile, 'user': cluster.user, 'discard': 'unmap',
            'cache': dict(cache), **more}
