# SPDX-License-Identifier: Apache-2.0
"""The disks of a round: images that its writers open."""

import dataclasses
import os
import uuid

from specreds_cinder import superposition
from testing.race import blocks
from testing.race import site as sites

_ALWAYS_CACHED = 'SPECREDS_RACE_CACHE'


def cached(drawn: str) -> str:
    """Return the policy of a primary's cache: as drawn, unless all are to have the same."""
    return os.environ.get(_ALWAYS_CACHED) or drawn


@dataclasses.dataclass(frozen=True)
class Shape:
    """What the disks of a round are like.

    :param sizes: of each image, in MiB
    :param order: objects have two to the power of this many bytes
    :param fill: whether all blocks are written before the race
    :param cache: policy of librbd's cache for the primary; empty for no cache
    :param qemu: whether QEMU opens the disks for the primary, with cache=writeback
    """

    sizes: tuple[int, ...]
    order: int
    fill: bool
    cache: str
    qemu: bool = False


class Disks:
    """Images of a shape.

    :ivar refs: those that exist
    :ivar sizes: of each image, in bytes
    """

    def __init__(self, site: sites.Site, shape: Shape) -> None:
        self._site = site
        self._order = shape.order
        self.sizes = [size << 20 for size in shape.sizes]
        self.refs: list[superposition.VolumeRef] = []

    def create(self) -> None:
        """Create the images."""
        name = f'race-{uuid.uuid4().hex[:8]}'
        for index, size in enumerate(self.sizes):
            self.refs.append(self._site.create(f'{name}-{index}', index, size, self._order))

    def remove(self) -> None:
        """Remove the images that exist."""
        self._site.remove(self.refs)

    def read(self) -> list[blocks.Values]:
        """Return the contents of the images, without disturbing their clients."""
        return [self._site.read(ref, index) for index, ref in enumerate(self.refs)]

    def named(self) -> list[tuple[int, list[str]]]:
        """Return size, and pool, namespace and name, of each image."""
        return [(size, [ref.pool, ref.namespace, ref.image])
                for size, ref in zip(self.sizes, self.refs, strict=True)]
