# SPDX-License-Identifier: Apache-2.0
"""The kinds of disk that are compared, each opened as in production."""

from collections.abc import Iterator
import contextlib
import uuid

import rbd

from bench import environment
from bench import exports
from bench import images
from specreds_cinder import superposition as sp
from specreds_cinder.superposition.overlay import nodes as block_nodes

RBD = 'rbd'
WRITEBACK = 'rbd-writeback'
CLONE = 'rbd-clone'
SUPER = 'super'
PROMOTED = 'super-promoted'
UNCACHED = 'super-uncached'

LABELS = {
    RBD: "plain RBD (cache=none, Nova's default)",
    WRITEBACK: 'plain RBD, cache=writeback',
    CLONE: 'RBD clone',
    SUPER: 'super, speculative',
    PROMOTED: 'super, promoted (durable)',
    UNCACHED: 'super without any cache',
}
COLOURS = {RBD: '#4c72b0', WRITEBACK: '#64b5cd', CLONE: '#8c8c8c', SUPER: '#c44e52',
           PROMOTED: '#dd8452', UNCACHED: '#937860'}
SNAPSHOT = 'parent'
PREFIX = 'sp0'


@contextlib.contextmanager
def opened(env: environment.Environment, variant: str, plain: sp.VolumeRef,
           base: sp.VolumeRef) -> Iterator[exports.Export]:
    """Export a disk of one kind while the context lasts; overlays and clones are fresh.

    :param plain: the image that RBD and WRITEBACK write to
    :param base: the image, with the same contents, under overlay and clone
    """
    if variant in (RBD, WRITEBACK):
        with plain_export(env, plain, writeback=variant == WRITEBACK) as export:
            yield export
    elif variant == CLONE:
        child = images.clone(env.cluster, base, SNAPSHOT, f'clone-{uuid.uuid4().hex[:8]}')
        try:
            with plain_export(env, child) as export:
                yield export
        finally:
            images.remove(env.cluster, child)
    else:
        with superposed(env, base) as record:
            if variant == UNCACHED:
                _uncache(env, record)
            with overlay_export(env, record, speculative=variant == SUPER,
                                direct=variant == UNCACHED) as export:
                yield export


def plain_export(env: environment.Environment, ref: sp.VolumeRef,
                 writeback: bool = False) -> exports.Export:
    """Describe the export of an image without an overlay, with Nova's cache mode."""
    node = {'driver': 'rbd', 'node-name': PREFIX, 'pool': ref.pool, 'image': ref.image,
            'conf': env.cluster.conffile, 'user': env.cluster.user, 'discard': 'unmap',
            'cache': {'direct': not writeback, 'no-flush': False}}
    return exports.Export([node], env.scratch)


def overlay_export(env: environment.Environment, record: sp.Record, speculative: bool = True,
                   direct: bool = False) -> exports.Export:
    """Describe the export of the child version of a superposition's only volume.

    :param direct: switch off QEMU's part of the write-back cache
    """
    nodes = block_nodes.overlay_nodes(env.cluster, record.volumes[0], speculative=speculative,
                                      prefix=PREFIX)
    if direct:
        for node in nodes:
            node['cache'] = {'direct': True, 'no-flush': False}
    return exports.Export(nodes, env.scratch)


@contextlib.contextmanager
def superposed(env: environment.Environment, ref: sp.VolumeRef) -> Iterator[sp.Record]:
    """Keep a volume in superposition while the context lasts, unless it is merged meanwhile."""
    record = env.protocol.super([ref], reason='benchmark')
    try:
        yield record
    finally:
        # A promoted superposition can only be merged; it is removed with the cluster.
        with contextlib.suppress(sp.NotSuperposed, sp.Conflict):
            env.protocol.abort(record)


def _uncache(env: environment.Environment, record: sp.Record) -> None:
    """Switch off librbd's part of the write-back cache of an overlay."""
    volume = record.volumes[0]
    with env.cluster.ioctx(volume.pool, volume.namespace) as io, \
            rbd.Image(io, volume.overlay) as overlay:
        overlay.metadata_set('conf_rbd_cache', 'false')
