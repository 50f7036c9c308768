# SPDX-License-Identifier: Apache-2.0
"""fence: shuts the clients of a failed host out of volumes that have no superposition."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import logging
import time

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import address
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.evidence import cut as cuts
from specreds_cinder.superposition.exclusion import ledger as ledgers
from specreds_cinder.superposition.steps import base
from specreds_cinder.superposition.steps import create
from specreds_cinder.superposition.truth import record as records

LOG = logging.getLogger(__name__)

_ROUNDS = 3


@dataclasses.dataclass(frozen=True)
class Target:
    """The clients of a volume that are shut out of it.

    :param ref: the volume
    :param addresses: addresses of the host, as :func:`address.host` returns them; None if only
        that host may have the volume open, so that every client is the host's
    :param clients: least number of clients that have to be found, since an image without
        exclusive-lock forgets a client that has been silent for half a minute
    """

    ref: records.VolumeRef
    addresses: frozenset[str] | None = None
    clients: int = 0

    def selects(self, client: str) -> bool:
        """Return whether a client of the volume is one of the host."""
        return self.addresses is None or address.host(client) in self.addresses


def clients(site: base.Site, refs: Sequence[records.VolumeRef], fence_id: str
            ) -> list[frozenset[str]]:
    """Return for each volume the clients that have it open. Changes nothing.

    Clients that were noted for a fence count, even if they have been silent since.

    :param fence_id: as for :func:`note`
    :raises VolumeGone: a volume does not exist
    """
    visible = site.each(lambda ref: volumes.clients(site.cluster, ref), refs)
    return [some | more for some, more in zip(visible, noted(site, refs, fence_id), strict=True)]


def noted(site: base.Site, refs: Sequence[records.VolumeRef], fence_id: str
          ) -> list[frozenset[str]]:
    """Return for each volume the clients that were noted for a fence. Changes nothing.

    :param fence_id: as for :func:`note`
    :raises VolumeGone: a volume does not exist
    """
    def in_ledger(ref: records.VolumeRef) -> frozenset[str]:
        return frozenset(
            client for client, entry in site.ledger.read(_recorded(site, ref)).items()
            if entry.superposition == fence_id)
    return site.each(in_ledger, refs)


def note(site: base.Site, refs: Sequence[records.VolumeRef], fence_id: str
         ) -> list[frozenset[str]]:
    """Enter the clients that have volumes open into the ledgers.

    A fence that follows finds them there, even if they have been silent since.

    :param fence_id: id of the fence, a UUID
    :returns: for each volume its clients, visible ones and ones in the ledger
    :raises VolumeGone: a volume does not exist
    :raises AlreadySuperposed: a volume is in a superposition, which has to decide
    """
    # Clients that are known from an earlier fence or superposition are this fence's as well.
    return site.each(lambda ref: _note(site, _volume(site, ref), fence_id, replace=True)[0], refs)


def shut_out(site: base.Site, targets: Sequence[Target],
             fence_id: str) -> Mapping[records.VolumeRef, frozenset[str]]:
    """Fence the clients of a host.

    When this returns, every placement group refuses the writes of these clients: a marker
    was written to each with an osdmap that has the fence.

    :param fence_id: as for :func:`note`
    :returns: the fenced clients by volume
    :raises VolumeGone: a volume does not exist
    :raises AlreadySuperposed: a volume is in a superposition
    :raises ClientsUnknown: too few clients of the host are known; none is fenced
    :raises ClusterError: new clients keep opening the volumes; others are fenced
    """
    recorded = site.each(lambda target: _volume(site, target.ref), targets)
    selected = site.each(lambda pair: _select(site, *pair, fence_id),
                         list(zip(targets, recorded, strict=True)))
    fenced = dict(zip((target.ref for target in targets), selected, strict=True))
    due: frozenset[str] = frozenset().union(*selected)
    # The server may be started elsewhere as soon as another caller has fenced its clients.
    hosts = {address.host(client) for client in due}
    for _ in range(_ROUNDS):
        if not due:
            return fenced
        site.keep_fenced(sorted({target.ref.home for target in targets}), due, fence_id)
        site.fence.close(due)
        _barrier(site, recorded)
        for volume in recorded:
            clients, _entries = _note(site, volume, fence_id)
            fenced[volume.ref] |= {client for client in clients if address.host(client) in hosts}
        due = frozenset().union(*fenced.values())
        due -= site.fence.remaining(due).keys()
    raise errors.ClusterError(
        f'new clients keep opening {", ".join(str(target.ref) for target in targets)}')


def _note(site: base.Site, volume: records.Volume, fence_id: str, *,
          replace: bool = False) -> tuple[frozenset[str], ledgers.Entries]:
    """Return the clients of a volume and its ledger, in which all of them are."""
    visible = volumes.clients(site.cluster, volume.ref)
    site.ledger.enter(volume, visible, ledgers.Entry(ledgers.PRIMARY, fence_id), replace=replace)
    entries = site.ledger.read(volume)
    return visible | entries.keys(), entries


def _select(site: base.Site, target: Target, volume: records.Volume, fence_id: str
            ) -> frozenset[str]:
    """Return the clients of a target, after they are in the ledger.

    :raises ClientsUnknown: too few are known
    """
    clients, entries = _note(site, volume, fence_id)
    selected = frozenset(client for client in clients if target.selects(client))
    # Older entries of the ledger may name clients that have ended since.
    current = {client for client in selected if client in volume.clients
               or entries[client].superposition == fence_id}
    if len(current) < target.clients:
        raise errors.ClientsUnknown(
            f'volume {target.ref} is attached on several hosts, and of the {target.clients} '
            f'clients of this one {len(current)} are known: it cannot be fenced')
    return selected


def _volume(site: base.Site, ref: records.VolumeRef) -> records.Volume:
    """Return the properties of a volume that is in no superposition.

    :raises AlreadySuperposed: it is in one
    """
    volume = _recorded(site, ref)
    claim = site.store.holder(ref.home, volume.image_id)
    if claim is not None:
        raise errors.AlreadySuperposed(str(ref), claim.superposition)
    return volume


def _recorded(site: base.Site, ref: records.VolumeRef) -> records.Volume:
    """Return the properties of a volume, as records describe them."""
    return create.recorded(volumes.inspect(site.cluster, ref), site.cluster.pools(), '')


def _barrier(site: base.Site, fenced: Iterable[records.Volume]) -> None:
    """Make every placement group of some volumes have the osdmap of this moment.

    :raises ClusterTimeout: a placement group does not answer
    """
    deadline = time.monotonic() + site.cluster.timeout
    for pool_id, namespace in sorted({
            (pool_id, volume.namespace) for volume in fenced
            for pool_id in (volume.pool_id, volume.data_pool_id)}):
        while not cuts.answered_by_all(site.cutter(pool_id, namespace).take()):
            if time.monotonic() > deadline:
                raise errors.ClusterTimeout(
                    f'a placement group of pool {pool_id} does not answer: a fenced write '
                    f'may be on its way to it')
