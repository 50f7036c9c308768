# SPDX-License-Identifier: Apache-2.0
"""The end of a superposition: overlays, claims, fence and record are removed."""

from collections.abc import Iterator
import contextlib
import dataclasses
import datetime
import logging

import tenacity

from specreds_cinder.superposition import address
from specreds_cinder.superposition import backup as backups
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import ledger as ledgers
from specreds_cinder.superposition import overlay
from specreds_cinder.superposition import rebuild
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import removal
from specreds_cinder.superposition import roles
from specreds_cinder.superposition import states
from specreds_cinder.superposition import store as stores
from specreds_cinder.superposition import volume as volumes
from specreds_cinder.superposition.protocol import clients

LOG = logging.getLogger(__name__)

# Seconds after a decision for a primary for which late entries of its fence, and object maps that
# it has invalidated, are looked for.
_LATE_S = 3600.0
# The label with the times at which clients were fenced already, by client.
FENCED_AT = 'fenced_at'


class Ending(clients.Clients):
    """Decides for the primary, and removes what a decided superposition leaves behind."""

    def abort(self, record: records.Record,
              progress: backups.Progress | None = None) -> None:
        """Decide for the primary: drop the overlays and the record.

        The fence of an interrupted collapse is removed. Clients that have met the fence stay dead
        all the same: check the primary then.

        :param progress: called with the number of objects of an overlay that were examined, and
            of all that may exist
        :raises Conflict: the backup's version is promoted
        :raises OverlayBusy: the backup runs, and the settings forbid to fence it
        """
        record = self.reload(record)
        if states.ABORT not in states.STEPS[record.state]:
            raise errors.Conflict(
                f'superposition {record.id} is {record.state}: the version of the backup is the '
                f'real one, it can only be merged', record.state)
        self._drop(record, states.ABORTED, progress)

    def _drop(self, record: records.Record, outcome: str,
              progress: backups.Progress | None = None) -> None:
        if record.state != states.ABORTING:
            record = self.store.swap(record, record.moved(states.ABORTING, outcome=outcome))
        self._unfence(record)
        self._unlatch(record)
        if self.settings.evict_backup:
            self._evict(record)
        self._clean(record, progress, evict=self.settings.evict_backup)

    def _evict(self, record: records.Record) -> None:
        """Fence the clients through which a dead or hung backup has the volumes open.

        QEMU opens the volumes below the overlays, with clients of their own; as long as Ceph takes
        these for alive, the host of the primary is ambiguous. Clients on a host of the primary are
        left alone. The owner of an overlay's lock may hang, also if its watch has expired.
        """
        backup = self._users(record)
        hosts = {address.host(client) for client in backup}
        hosts -= {address.host(client) for client in record.clients}
        below = frozenset(
            client for volume in record.volumes
            for client in self._visible(volumes.clients, volume.ref)
            if address.host(client) in hosts) if hosts and record.clients else frozenset()
        # The clients of the overlays are fenced when these are removed.
        self._keep_fenced(record.home, backup | below | self._owners(record), record.id,
                          record.server_id)
        self.fence.evict(below)

    def tidy(self, home: records.Home, older_s: float = 600) -> int:
        """Remove remains of superpositions, and fences that came after a decision.

        :param older_s: as for :meth:`Base.tidy`, and age up to which removed overlays are not
            looked for again
        :returns: number of index entries that were removed
        """
        removed = super().tidy(home, older_s)
        # First of all: a primary that lives may be shut out.
        self._tidy_fences(home)
        for entry in removal.again(self.cluster, home, older_s):
            self.store.release_void(home, entry.image_id)
        self._tidy_overlays(home)
        return removed

    def _tidy_overlays(self, home: records.Home) -> None:
        """Remove overlays of no superposition, which a controller made that was overtaken."""
        # The images first: an overlay is made after its superposition was entered into the index.
        named = {name: parts for name in volumes.names(self.cluster, home)
                 if (parts := overlay.named(name)) is not None}
        index = self.store.index(home) if named else {}
        known = {overlay.named(overlay.name('', superposition)) for superposition in index}
        orphans = {name: image for name, (image, part) in named.items()
                   if ('', part) not in known}
        if not orphans:
            return
        for name in orphans:
            try:
                self._tidy_overlay(records.VolumeRef(home.pool, home.namespace, name),
                                   orphans[name])
            except (errors.OverlayBusy, errors.ClusterError) as exc:
                LOG.warning('cannot remove overlay %s, which is in no superposition, trying again '
                            'at the next pass: %s', name, exc)

    def _tidy_overlay(self, ref: records.VolumeRef, image: str) -> None:
        """Remove an overlay of no superposition, as soon as its volume is in none, either.

        :param image: name of the image of its volume
        :raises OverlayBusy: a client has it open
        """
        image_id = None
        with contextlib.suppress(errors.VolumeGone), volumes.opened(
                self.cluster, dataclasses.replace(ref, image=image)) as opened:
            image_id = opened.id()
        if image_id is not None and self.store.holder(ref.home, image_id) is not None:
            return
        if removal.remove_orphan(self.cluster, ref, self.fence):
            LOG.info('overlay %s, which was in no superposition, is removed', ref)
            if image_id is not None:
                self.store.release_void(ref.home, image_id)

    def _tidy_fences(self, home: records.Home) -> None:
        """Remove late entries of the fences of dropped superpositions."""
        if dropped := self.dropped.read(home):
            # An entry that is shorter has another author: librbd as it breaks a lock, or an
            # operator. Another host may rely on it.
            blocklist = frozenset(client for client, left in self.fence.remaining().items()
                                  if left > self.settings.fence_expiry_s / 2)
            pools = {pool.name for pool in self.cluster.pools().values()}
            for record in dropped:
                try:
                    # Nothing is left to do for a volume whose pool was removed.
                    self._tidy_dropped(dataclasses.replace(record, volumes=tuple(
                        volume for volume in record.volumes
                        if volume.ref.pool in pools)), blocklist)
                except errors.ClusterError as exc:
                    LOG.warning('cannot look for late entries of the fence of superposition %s, '
                                'trying again: %s', record.id, exc)

    def _tidy_dropped(self, record: records.Record, blocklist: frozenset[str]) -> None:
        """Mend what a primary that lives has met since; after an hour, forget it.

        Late entries of its fence are removed, and its object maps rebuilt.

        :param blocklist: the clients on the blocklist that a superposition has fenced
        """
        if self._claims(record):
            return
        if late := blocklist & set(record.fenced):
            self._unfence_gone(dataclasses.replace(record, fenced=tuple(sorted(late))))
        self._rebuild(record)
        age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(
            record.updated_at)
        if age.total_seconds() > _LATE_S:
            self.dropped.remove(record)

    def _unfence(self, record: records.Record) -> None:
        """Remove the fence of a primary that lives, unless another superposition decides on it."""
        if (record.outcome in states.LIVING and record.fenced
                and {claim.superposition for claim in self._claims(record)} <= {record.id}):
            self._lift(record, self._living(record, self._entries(record)))

    def _unfence_lost(self, record: records.Record) -> None:
        """Remove the fence of a record that another controller has decided, or ended.

        If the record is gone, the ledgers decide: clients that are fenced for good have left them.
        If a volume is in another superposition by now, that one decides.
        """
        try:
            self._unfence(dataclasses.replace(
                record, outcome=self.reload(record).outcome))
        except errors.NotSuperposed:
            if not self._claims(record):
                self._unfence_gone(record)

    def _unfence_gone(self, record: records.Record) -> None:
        """Remove the fence of a superposition that is gone from clients that live.

        Its volumes are in no superposition.
        """
        entries = self._entries(record)
        if living := self._living(record, entries) & entries.keys():
            LOG.info('superposition %s was decided for its primary, which a late fence has shut '
                     'out: removing %s from the blocklist', record.id, ', '.join(sorted(living)))
            self._lift(record, living)

    def _lift(self, record: records.Record, clients: frozenset[str]) -> None:
        """Remove the fence of clients, and see to decisions that need it.

        No such decision was known before. But this controller may have hung since, and another
        superposition may have fenced the same clients.
        """
        if clients:
            try:
                self.fence.open(clients)
            finally:
                # After an error it may be lifted all the same, later.
                self._restore_fence(record, clients)

    # Each loser of a compare-and-swap makes way for a winner, so this ends.
    @tenacity.retry(retry=tenacity.retry_if_exception_type(errors.RecordChanged),
                    wait=tenacity.wait_random(0, 0.1), stop=tenacity.stop_after_attempt(20),
                    reraise=True)
    def _restore_fence(self, record: records.Record, clients: frozenset[str]) -> None:
        """Fence those of some clients again that another superposition than a record's fences.

        An undecided one has to sweep again, as a client may have written while it was not fenced.
        Its record changes before the fence is back, so that a commit that is on its way fails.
        """
        needed: frozenset[str] = frozenset()
        for other in self._others(record):
            if other.outcome in states.LIVING or clients.isdisjoint(other.fenced):
                continue
            # If it has ended meanwhile, clients that it has fenced for good are listed.
            with contextlib.suppress(errors.NotSuperposed):
                if other.outcome is None:
                    self.store.swap(other, dataclasses.replace(other, updated_at=records.now()))
                needed |= clients & set(other.fenced)
        needed |= clients & self._fenced_for_good(record)
        if needed:
            LOG.warning('superposition %s has removed the fence of %s, which another one needs: '
                        'fencing them again', record.id, errors.named(needed))
            self.fence.close(needed)

    def _claims(self, record: records.Record) -> frozenset[stores.Claim]:
        """Return the claims on the volumes of a record, without void ones."""
        return frozenset(claim for claim in self._each(
            lambda volume: self.store.holder(volume.ref.home, volume.image_id), record.volumes)
            if claim is not None)

    def _others(self, record: records.Record) -> Iterator[records.Record]:
        """Yield the other superpositions that the volumes of a record are in."""
        for claim in self._claims(record):
            if claim.superposition != record.id:
                with contextlib.suppress(errors.NotSuperposed):
                    yield self.store.read(claim.superposition, claim.home)

    def _living(self, record: records.Record, entries: ledgers.Entries) -> frozenset[str]:
        """Return the fenced clients that may live on.

        A client that another decision has fenced for good may be listed as a watcher still.
        """
        return roles.living(record, entries) - self._fenced_for_good(record)

    def _fenced_for_good(self, record: records.Record) -> frozenset[str]:
        """Return the clients that other superpositions than a record's have fenced for good."""
        return frozenset(client for home in record.homes
                         for client, entry in self.fenced_clients.read(home).entries.items()
                         if entry.superposition != record.id)

    def _clean(self, record: records.Record, progress: backups.Progress | None = None, *,
               evict: bool) -> None:
        """Remove everything that belongs to a decided superposition; its record last."""
        self._each(lambda volume: removal.remove(self.cluster, volume, self.fence, progress,
                                                 evict=evict), record.volumes)
        self._settle(record)
        self._unlatch(record)
        # Again: a controller that was collapsing when the record was decided may have fenced
        # since. Without a record it fences nothing, but the monitors may commit its entries late.
        self._unfence(record)
        if record.outcome in states.LIVING and record.cuts:
            self.dropped.enter(record)
        elif record.outcome == states.LATE_DIRTY:
            # It stays fenced: its server, which is started again, has its object maps.
            self.dropped.enter(dataclasses.replace(record, fenced=()))
        if record.outcome in states.LIVING:
            self._rebuild(record)
        self._each(lambda volume: self.store.release(volume, record.id), record.volumes)
        self.store.delete(record)

    def _rebuild(self, record: records.Record) -> None:
        """Have invalid object maps rebuilt by the clients of their volumes that live.

        A primary that hung, and lost its lock to the backup, has invalidated them as it woke. A
        later look does what fails now.
        """
        def begin(volume: records.Volume) -> None:
            try:
                if rebuild.begin(self.cluster, volume):
                    LOG.info('superposition %s: a client rebuilds the object map of %s, which was '
                             'flagged invalid', record.id, volume.ref)
            except errors.ClusterError as exc:
                LOG.warning('superposition %s: the object map of %s may be invalid: %s', record.id,
                            volume.ref, exc)
        self._each(begin, record.volumes)

    def _settle(self, record: records.Record) -> None:
        """Remove from the ledgers the clients that this superposition has fenced for good."""
        if record.outcome not in states.FENCED or not record.fenced:
            return
        proven = self.fence.remaining(record.fenced).keys()
        fenced_at = record.labels.get(FENCED_AT, {})
        for moment in {fenced_at.get(client) for client in proven}:
            self._keep_fenced(
                record.home, {client for client in proven if fenced_at.get(client) == moment},
                record.id, record.server_id, moment)
        self._each(lambda volume: self.ledger.leave(volume, proven), record.volumes)
