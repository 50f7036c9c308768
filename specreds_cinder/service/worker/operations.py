# SPDX-License-Identifier: Apache-2.0
"""The calls that a worker serves: the protocol, with plain values as arguments and results."""

import builtins
from collections.abc import Mapping, Sequence
import contextlib
import dataclasses
import datetime
import logging
from typing import Any

from oslo_context import context

from specreds_cinder import superposition as sp
from specreds_cinder.service.worker import handouts
from specreds_cinder.service.worker import watches
from specreds_cinder.superposition.ceph import address
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states

LOG = logging.getLogger(__name__)

Answer = tuple[str, Any]
OK = 'ok'
ERROR = 'error'

# Steps of the protocol that take a record, and return nothing to the volume service.
_STEPS = ('unused', 'begin_merge', 'end_merge')
# A label that this module keeps in a record, beside its caller's and the protocol's.
_HANDED_AT = 'handed_at'
# Seconds after a hand-out in which its client may not have been seen by another worker, which has
# ended since.
_RECENT_S = 120.0


class Operations:
    """The superpositions of one pool, and of others beside it. Safe to share between threads.

    An image of the pool is named by its name, one of another pool by ``pool/image``.

    :param home: the pool of the back end
    :param watching: sweep superposed volumes in the background
    :param others: other pools with images that are superposed
    """

    def __init__(self, protocol: sp.Protocol, home: sp.Home, *, watching: bool,
                 others: Sequence[sp.Home] = ()) -> None:
        self._protocol = protocol
        self._home = home
        self._homes = (home, *others)
        self._watches = watches.Watches(protocol, watching=watching)
        self._hand_outs = handouts.HandOuts(protocol)

    def call(self, method: str, arguments: Mapping[str, Any],
             requester: Mapping[str, Any]) -> Answer:
        """Call a method; an error is an answer, too.

        :param method: name of a public method of this class, or of a step of the protocol that
            needs no more than the record
        :param requester: request id, user and project, for the log
        """
        context.RequestContext(overwrite=True, **requester)
        try:
            if method in _STEPS:
                getattr(self._protocol, method)(self._get(**arguments))
                return OK, None
            return OK, getattr(self, method)(**arguments)
        except sp.SuperError as exc:
            return ERROR, {'type': type(exc).__name__, 'message': str(exc),
                           'state': getattr(exc, 'state', None),
                           'reasons': list(getattr(exc, 'reasons', ()))}
        except Exception as exc:
            LOG.exception('%s failed', method)
            return ERROR, {'type': type(exc).__name__, 'state': None, 'reasons': [], 'message':
                           f'{method} failed in the superposition worker ({exc!r}); the log of '
                           f'the volume service says where'}

    # Reading

    def ping(self) -> None:
        """Make sure that the pools can be reached.

        :raises ClusterError: one cannot be reached
        """
        self._records()

    def show(self, superposition: str, brief: bool = False) -> dict[str, Any]:
        """Return a superposition.

        :param brief: leave out the sizes of its overlays, each of which takes a sweep
        :raises NotSuperposed: no superposition has that id
        """
        record = self._get(superposition)
        if brief:
            return self._view(record)
        sizes = [self._protocol.overlay_bytes(dataclasses.replace(record, volumes=(volume,)))
                 for volume in record.volumes]
        return self._view(record, sizes)

    def list(self, whole: bool = False) -> builtins.list[dict[str, Any]]:
        """Return every superposition of the pools, without the sizes of overlays.

        One whose record cannot be read has the state ``unknown``, and no volumes.

        :param whole: insist on all records
        """
        watched = self._watches.watched()
        unreadable: dict[str, sp.ClusterError] = {}
        listed = self._records(unreadable)
        if whole:
            for error in unreadable.values():
                raise error
        # Another service of a cluster may have ended a superposition that is watched here.
        for ended in watched - {record.id for record in listed} - unreadable.keys():
            self._watches.end(ended)
        return [self._view(record) for record in listed] + [
            {'id': superposition, 'state': states.UNKNOWN, 'labels': {}, 'volumes': []}
            for superposition in sorted(unreadable)]

    def find(self, image: str) -> dict[str, Any] | None:
        """Return the superposition of an image; None if it is in none."""
        try:
            return self._view(self._protocol.find(self._ref(image)))
        except sp.NotSuperposed:
            return None

    def image_id(self, image: str) -> str | None:
        """Return the id of an image; None if it does not exist."""
        with contextlib.suppress(sp.VolumeGone), \
                volumes.opened(self._protocol.cluster, self._ref(image)) as opened:
            return str(opened.id())
        return None

    def remove_ledger(self, image_id: str) -> None:
        """Remove the ledger of an image that is deleted."""
        self._protocol.ledger.remove(self._home, image_id)

    def provisioned(self) -> int:
        """Return the sum of the virtual sizes of all overlays of the pool, in bytes."""
        return sum(self._protocol.overlay_capacity(dataclasses.replace(record, volumes=tuple(
            volume for volume in record.volumes if volume.ref.home == self._home)))
            for record in self._protocol.list(self._home))

    def monitors(self) -> builtins.list[tuple[str, str]]:
        """Return the addresses and ports of the cluster's monitors."""
        monmap = self._protocol.cluster.mon({'prefix': 'mon dump'})
        return [address.endpoint(monitor['addr']) for monitor in monmap['mons']]

    def eligibility(self, images: builtins.list[str],
                    encrypted: Sequence[str] = (),
                    read: Sequence[str] = ()) -> builtins.list[builtins.list[str]]:
        """Return for each image the reasons why it cannot be superposed; none if it can.

        :param encrypted: the images that servers open with a key
        :param read: the images that another host reads, beside the server's
        """
        return [self._protocol.objections(self._ref(image), encrypted=image in encrypted,
                                          read=image in read)
                for image in images]

    # Deciding

    def super(self, superposition: str, images: builtins.list[str], reason: str,
              server_id: str | None, labels: Mapping[str, Any],
              encrypted: Sequence[str] = (), read: Sequence[str] = (),
              dead: bool = False) -> dict[str, Any]:
        """Put images into superposition. Raises as :meth:`Protocol.super` does.

        :param encrypted: the images that servers open with a key
        :param read: the images that another host reads, beside the server's
        :param dead: the only host with clients of the images is dead as a fact
        """
        record = self._protocol.super(
            [self._ref(image) for image in images], reason, server_id,
            superposition=superposition, labels=labels,
            encrypted=[self._ref(image) for image in encrypted],
            read=[self._ref(image) for image in read], dead=dead)
        self._watches.begin(record)
        return self._view(record)

    def check(self, superposition: str) -> dict[str, Any]:
        """Sweep once, and return the report. Raises as :meth:`Protocol.check` does."""
        return dataclasses.asdict(self._protocol.check(self._get(superposition)))

    def drop(self, superposition: str) -> None:
        """Decide for the primary. A superposition that is gone is no error."""
        with contextlib.suppress(sp.NotSuperposed):
            record = self._get(superposition)
            self._watches.end(superposition)
            self._protocol.abort(record)

    def collapse(self, superposition: str, durable: bool) -> dict[str, Any]:
        """Decide, or continue an interrupted decision."""
        record = self._get(superposition)
        durable = durable or bool(record.labels.get(records.DURABLE))
        if durable and not record.labels.get(records.DURABLE):
            # After a crash, the decision is continued without the caller.
            record = self._protocol.label(record, **{records.DURABLE: True})
        self._watches.end(superposition)
        try:
            if record.state == states.COLLAPSING:
                report = sp.CollapseReport(
                    self._protocol.resume(record, durable=durable),
                    sp.SweepReport(False, None, 0, 0.0))
            else:
                report = self._protocol.collapse(record, durable=durable)
            return {'outcome': report.outcome, 'durations': report.durations}
        except Exception:
            # It may be superposed still.
            with contextlib.suppress(sp.SuperError):
                self._watches.begin(self._get(superposition))
            raise

    # Afterwards

    def merge(self, superposition: str, keys: Mapping[str, str] | None = None,
              rate: int = 0) -> None:
        """Merge overlays that no client has open, and end the superposition.

        :param keys: passphrases of the encrypted images
        :param rate: bytes per second at most, 0 for no limit
        """
        self._protocol.merge(self._get(superposition), rate=rate, keys={
            self._ref(image): passphrase for image, passphrase in (keys or {}).items()})

    def hand_out(self, superposition: str) -> dict[str, Any]:
        """Record that a client is about to open the overlays of a promoted superposition."""
        record = self._get(superposition)
        # The clients that had them open so far may only hang: enter them into the ledgers first.
        with contextlib.suppress(sp.RecordChanged):
            self._protocol.observe(record)
        record = self._protocol.label(record, **{_HANDED_AT: records.now()})
        self._hand_outs.begin(record, record.labels[_HANDED_AT])
        return self._view(record)

    def resume(self, superposition: str) -> str:
        """Continue an interrupted step; see :meth:`Protocol.resume`."""
        record = self._get(superposition)
        return self._protocol.resume(record, durable=bool(record.labels.get(records.DURABLE)))

    def look_after(self, superposition: str) -> None:
        """Renew the fence of a decided superposition; watch a superposed one."""
        record = self._get(superposition)
        self._protocol.renew(record)
        if record.state in states.DECIDED:
            self._watches.end(superposition)
        self._watches.begin(record)
        handed_at = record.labels.get(_HANDED_AT)
        if handed_at is not None and _since(handed_at) < _RECENT_S:
            # A service that was started since goes on with the looks.
            self._hand_outs.begin(record, handed_at)

    def tidy(self) -> None:
        """Remove remains and late fences, in each pool, although another one does not answer.

        :raises ClusterError: a pool does not answer
        """
        error: sp.ClusterError | None = None
        for home in self._homes:
            try:
                self._protocol.tidy(home)
            except sp.ClusterError as exc:
                error = exc
        if error is not None:
            raise error

    def count_fenced(self) -> int:
        """Return the number of clients that stay fenced after their superposition has ended."""
        return len({listed.client for home in self._homes
                    for listed in self._protocol.fenced(home)})

    def release_booted(self, boots: builtins.list[Mapping[str, Any]]) -> builtins.list[str]:
        """Release the clients that boots of their hosts have ended.

        :param boots: the addresses of each host, and the time of its boot in ISO 8601
        :returns: the clients that were released
        """
        booted = {host: datetime.datetime.fromisoformat(boot['booted_at'])
                  for boot in boots for host in boot['addresses']}
        return sorted({client for home in self._homes
                       for client in self._protocol.release_booted(home, booted)})

    # Without a superposition

    def clients(self, images: builtins.list[str],
                fence_id: str) -> builtins.list[builtins.list[str]]:
        """Return for each image the addresses of its clients, as :meth:`Protocol.clients` does."""
        return [sorted(clients) for clients in self._protocol.clients(
            [self._ref(image) for image in images], fence_id)]

    def noted(self, images: builtins.list[str],
              fence_id: str) -> builtins.list[builtins.list[str]]:
        """Return for each image the clients that were noted for a fence."""
        return [sorted(clients) for clients in self._protocol.noted(
            [self._ref(image) for image in images], fence_id)]

    def images(self, prefix: str) -> builtins.list[str]:
        """Return the images whose names begin with the name of an image."""
        ref = self._ref(prefix)
        return [self._name(dataclasses.replace(ref, image=name)) for name in sorted(
            volumes.names(self._protocol.cluster, ref.home)) if name.startswith(ref.image)]

    def note(self, images: builtins.list[str], fence_id: str) -> None:
        """Enter the clients of images into ledgers. Raises as :meth:`Protocol.note` does."""
        self._protocol.note([self._ref(image) for image in images], fence_id)

    def shut_out(self, targets: builtins.list[Mapping[str, Any]],
                 fence_id: str) -> builtins.list[int]:
        """Fence the clients of a host. Raises as :meth:`Protocol.shut_out` does.

        :param targets: for each image its name, the addresses of the host or None, and the least
            number of its clients
        :returns: the number of clients that are fenced, for each image
        """
        wanted = [sp.Target(
            self._ref(target['image']), clients=target['clients'],
            addresses=None if target['addresses'] is None else frozenset(target['addresses']))
            for target in targets]
        fenced = self._protocol.shut_out(wanted, fence_id)
        return [len(fenced[target.ref]) for target in wanted]

    # Watching

    def next_dirty(self, timeout: float) -> tuple[str, str] | None:
        """Wait for a superposition to become dirty, as :meth:`Watches.next_dirty` does."""
        return self._watches.next_dirty(timeout)

    # Records and names

    def _records(self, unreadable: dict[str, sp.ClusterError] | None = None
                 ) -> builtins.list[sp.Record]:
        """Return the records of all pools, oldest first.

        :param unreadable: as of :meth:`Protocol.list`
        """
        by_id = {record.id: record for home in self._homes
                 for record in self._protocol.list(home, unreadable)}
        return sorted(by_id.values(), key=lambda record: record.created_at)

    def _get(self, superposition: str) -> sp.Record:
        # A record is in the pool of its first image, which may be none of these pools.
        for home in self._homes:
            with contextlib.suppress(sp.NotSuperposed):
                return self._protocol.show(superposition, home)
        self._watches.end(superposition)
        raise sp.NotSuperposed(f'there is no superposition {superposition} (any more)')

    def _ref(self, image: str) -> sp.VolumeRef:
        if '/' in image:
            return sp.VolumeRef.parse(image)
        return sp.VolumeRef(self._home.pool, self._home.namespace, image)

    def _name(self, ref: sp.VolumeRef) -> str:
        return ref.image if ref.home == self._home else str(ref)

    def _view(self, record: sp.Record, sizes: builtins.list[int] | None = None) -> dict[str, Any]:
        watched = record.id in self._watches and record.state not in states.DECIDED
        dirty = self._watches.dirty(record.id) if watched else None
        bytes_: Sequence[int | None] = sizes or [None] * len(record.volumes)
        return {
            'id': record.id, 'state': record.state, 'outcome': record.outcome,
            'created_at': record.created_at, 'updated_at': record.updated_at,
            'age_seconds': _since(record.created_at), 'fenced': len(record.fenced),
            'unchanged_seconds': _since(record.labels.get(_HANDED_AT, record.updated_at)),
            'reason': record.reason, 'server_id': record.server_id,
            'labels': record.labels,
            'dirty': dirty is not None if watched else None, 'dirty_object': dirty,
            'volumes': [{
                'image': self._name(volume.ref), 'size_bytes': volume.size_bytes,
                'overlay': str(volume.overlay_ref), 'overlay_bytes': size}
                for volume, size in zip(record.volumes, bytes_, strict=True)],
        }


def _since(moment: str) -> float:
    """Return the seconds since a moment in the form of records."""
    return (datetime.datetime.now(datetime.UTC)
            - datetime.datetime.fromisoformat(moment)).total_seconds()
