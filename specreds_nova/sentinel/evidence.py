# SPDX-License-Identifier: Apache-2.0
"""What Ceph says of the images that local domains use. It is only read, never changed."""

from collections.abc import Iterable, Mapping
import contextlib
import dataclasses
import errno

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import address
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.exclusion import fence
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import store as stores

# Ceph does not allow it, knows no such pool, or this host has no keyring for the client.
_REFUSED = frozenset({errno.EPERM, errno.EACCES, errno.ENOENT, errno.EOPNOTSUPP})


@dataclasses.dataclass(frozen=True)
class Opened:
    """An image and who has it open.

    :param image_id: RBD's own, which claims go by
    :param local: the clients of this host that watch it, without our own
    """

    image_id: str
    local: frozenset[str]


class Storage:
    """A Ceph cluster, seen as one cephx user.

    Every method raises ClusterError if Ceph does not answer, or refuses to.

    :param cluster: it is connected when it is first used, and again after :meth:`reset`
    """

    def __init__(self, cluster: ceph.Cluster) -> None:
        self._cluster = cluster
        self._store = stores.Store(cluster)
        # It is only asked, so the expiry of what it would add does not matter.
        self._fence = fence.Fence(cluster, 1)

    def reset(self) -> None:
        """Close the connection, which Ceph may have shut out or forgotten."""
        self._cluster.close()

    @property
    def hosts(self) -> frozenset[str]:
        """The addresses of this host as a client."""
        return frozenset(address.host(client) for client in self._cluster.addresses)

    def opened(self, ref: records.VolumeRef) -> Opened | None:
        """Return the clients that have an image open, None if the image does not exist."""
        try:
            with volumes.opened(self._cluster, ref) as image:
                watching = address.found_in(
                    ' '.join(watcher['addr'] for watcher in image.watchers_list()))
                return Opened(image.id(), frozenset(
                    client for client in watching - self._cluster.addresses
                    if address.host(client) in self.hosts))
        except errors.VolumeGone:
            return None

    def record(self, ref: records.VolumeRef, image_id: str) -> records.Record | None:
        """Read the record of the superposition that a volume is in, None if it is in none."""
        claim = self._store.claimed(ref.home, image_id)
        if claim is None:
            return None
        with contextlib.suppress(errors.NotSuperposed):
            return self._store.read(claim.superposition, claim.home)
        return None

    def noted(self, ref: records.VolumeRef) -> frozenset[str]:
        """Return every address that a record with this volume names as fenced."""
        addresses: set[str] = set()
        for superposition, entry in self._store.index(ref.home).items():
            with contextlib.suppress(errors.NotSuperposed):
                record = self._store.read(superposition, entry.home)
                if ref in {volume.ref for volume in record.volumes}:
                    addresses.update(record.fenced)
        return frozenset(addresses)

    def blocklisted(self, at_least_s: float) -> frozenset[str]:
        """List the clients that stay blocklisted for some time.

        :param at_least_s: seconds
        """
        return _lasting(self._fence.remaining(), at_least_s)

    def suspected(self, at_least_s: float) -> frozenset[str]:
        """Return what :meth:`blocklisted` does, for looks that are repeated.

        Each host of a cloud takes them every few seconds, and the blocklist may be long: it is
        read only if the osdmap has changed.
        """
        return _lasting(self._fence.copied(), at_least_s)


def refused(error: errors.SuperError) -> bool:
    """Return whether an error means that this client may not read, and not that Ceph is silent."""
    return abs(getattr(error.__cause__, 'errno', None) or 0) in _REFUSED


def _lasting(left_s: Mapping[str, float], at_least_s: float) -> frozenset[str]:
    return frozenset(client for client, left in left_s.items() if left >= at_least_s)


def overlays(record: records.Record, ref: records.VolumeRef) -> Iterable[str]:
    """Name the overlay images of a volume in a superposition."""
    return [volume.overlay for volume in record.volumes if volume.ref == ref]
