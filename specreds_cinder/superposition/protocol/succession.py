# SPDX-License-Identifier: Apache-2.0
"""Superpositions over a promoted one: which of them counts, and how one takes another's place.

The promoted superposition that is not merged yet, the *predecessor*, keeps the claims on the
volumes and their latches until its *successor* is promoted. A successor counts as long as it has a
record. While it counts, the predecessor does not change, but for its labels: neither can its merge
begin, nor its clients be entered into the ledgers as its own. Its latches cannot be opened
therefore: that takes a merge, and a merge leaves the state ``promoted`` for ever.
"""

from collections.abc import Iterator
import contextlib
import dataclasses

import tenacity

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import ledger as ledgers
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import states
from specreds_cinder.superposition import store as stores
from specreds_cinder.superposition import volume as volumes
from specreds_cinder.superposition.protocol import base

# Each loser of a compare-and-swap makes way for a winner, so this ends.
repeated = tenacity.retry(retry=tenacity.retry_if_exception_type(errors.RecordChanged),
                          wait=tenacity.wait_random(0, 0.1),
                          stop=tenacity.stop_after_attempt(20), reraise=True)


class Succession(base.Base):
    """Finds the superposition that counts, and lets one take the place of its predecessor."""

    def show(self, superposition: str, home: records.Home) -> records.Record:
        """Return a superposition by its id and the home of its record.

        :raises NotSuperposed: it does not exist, or has ended: also one whose successor is
            promoted, but has not removed its record yet
        """
        record = self.store.read(superposition, home)
        counting = self.counting(record)
        if counting.id != record.id:
            raise _replaced(record, counting)
        return record

    def find(self, ref: records.VolumeRef) -> records.Record:
        """Return the superposition that says which version of a volume is real.

        That is the predecessor until its successor is promoted.

        :raises NotSuperposed: the volume is in none
        """
        try:
            with volumes.opened(self.cluster, ref) as image:
                image_id = image.id()
        except errors.VolumeGone:
            for record in self.list(ref.home):
                if ref in {volume.ref for volume in record.volumes}:
                    return self.counting(record)
            raise errors.NotSuperposed(f'volume {ref} is in no superposition') from None
        claim, last = self.store.claimed(ref.home, image_id), None
        # The record of a claim is gone if the superposition has ended, or has been succeeded,
        # since the claim was read.
        while claim is not None and claim != last:
            with contextlib.suppress(errors.NotSuperposed):
                return self.counting(self.store.read(claim.superposition, claim.home))
            claim, last = self.store.claimed(ref.home, image_id), claim
        raise errors.NotSuperposed(f'volume {ref} is in no superposition')

    def counting(self, record: records.Record) -> records.Record:
        """Return the superposition that counts: the promoted successor of one, or the same one.

        :raises NotSuperposed: the superposition has ended
        """
        successor = self.successor(record)
        if successor is None or successor.state not in states.DECIDED:
            return record
        return self.counting(successor)

    def successor(self, record: records.Record) -> records.Record | None:
        """Return the superposition over a promoted one; None if there is none (any more).

        :raises NotSuperposed: the promoted one has ended
        """
        if record.successor is None:
            return None
        try:
            return self.store.read(record.successor, record.home)
        except errors.NotSuperposed:
            # The successor was dropped; or it was promoted and merged, and the record is gone.
            self.reload(record)
            return None

    def _without_successor(self, record: records.Record) -> None:
        """:raises Conflict: a superposition over this one is undecided, or has taken its place"""
        successor = self.successor(record)
        if successor is not None:
            raise errors.Conflict(
                f'superposition {record.id} is superposed again, by {successor.id}, which is '
                f'{successor.state}: collapse or resume that one first', record.state)

    def _be_succeeded(self, record: records.Record, successor: str) -> None:
        """Record a superposition over a promoted one, as it was read but for its labels.

        A connection may be handed out right before that: its client is one of the primary, as it
        is if the connection was handed out right before the record was read.

        :raises Conflict: another one is over it, or it is not promoted
        :raises RecordChanged: it was changed meanwhile, for example by a merge
        """
        if record.state != states.PROMOTED:
            raise errors.Conflict(f'superposition {record.id} is {record.state}: only one that is '
                                  f'promoted can be superposed again', record.state)
        self._without_successor(record)
        while True:
            try:
                self.store.swap(record, dataclasses.replace(record, successor=successor))
                return
            except errors.RecordChanged:
                current = self.reload(record)
                if dataclasses.replace(
                        current, labels=record.labels, version=record.version) != record:
                    raise
                # Each loser makes way for a connection that is handed out, so this ends.
                record = current

    def _is_over(self, record: records.Record) -> bool:
        """Return whether no superposition but this one is over its predecessor."""
        with contextlib.suppress(errors.NotSuperposed):
            return self._below(record).successor == record.id
        return False

    def _below(self, record: records.Record) -> records.Record:
        """Return the predecessor of a superposition.

        :raises NotSuperposed: it has ended, or has none
        """
        if record.predecessor is None:
            raise errors.NotSuperposed(f'superposition {record.id} has no predecessor')
        return self.store.read(record.predecessor, record.home)

    def _succeeded(self, record: records.Record) -> records.Record:
        """Return the predecessor of a superposition, which is its successor.

        :raises ClusterError: it is not
        """
        below = self._below(record)
        if below.successor != record.id:
            raise errors.ClusterError(
                f'superposition {record.id} is {record.state}, but superposition {below.id} '
                f'below it is succeeded by {below.successor}')
        return below

    @repeated
    def _succeed(self, record: records.Record) -> None:
        """Take the place of the predecessor, behind the commit point. May be repeated.

        The latches first: without its record, the predecessor's could not be told from remains.
        The claims before the record: a claim without a record says that a volume is in no
        superposition.
        """
        if record.predecessor is None:
            return
        for volume in record.volumes:
            for parent in volume.parents[1:]:
                self.latch.pass_on(parent, record.predecessor, record.id)
        for volume in record.volumes:
            self.store.pass_claim(volume, record.predecessor, record.id, record.home)
        with contextlib.suppress(errors.NotSuperposed):
            self.store.delete(self._succeeded(record))

    def _complete_succession(self, record: records.Record) -> None:
        """Do what is left of the commit of a promoted superposition, and of its successor's.

        :raises NotSuperposed: the successor has taken its place
        """
        self._succeed(record)
        counting = self.counting(record)
        if counting.id != record.id:
            self._succeed(counting)
            raise _replaced(record, counting)

    @repeated
    def _restore_below(self, record: records.Record) -> None:
        """Leave the predecessor as it is to be after a decision for it. May be repeated.

        Clients of a late dirty primary stay fenced, so the predecessor's merge must count them as
        fenced. Others may be its server's, which was started again meanwhile: its next look
        decides on their role.
        """
        if record.predecessor is None or record.outcome == states.PROMOTED:
            return
        with contextlib.suppress(errors.NotSuperposed):
            below = self._below(record)
            fenced = frozenset(below.fenced).union(
                record.fenced if record.outcome in states.FENCED else ())
            if fenced != frozenset(below.fenced):
                self.store.swap(below, dataclasses.replace(below, fenced=tuple(sorted(fenced))))
        for volume in record.volumes:
            self.ledger.exchange(volume, ledgers.Entry(ledgers.PRIMARY, record.id),
                                 ledgers.Entry(ledgers.PRIMARY, record.predecessor))

    def _claims(self, record: records.Record) -> frozenset[stores.Claim]:
        """Return the claims on the volumes of a record, without void ones."""
        return frozenset(claim for claim in self._each(
            lambda volume: self.store.holder(volume.ref.home, volume.image_id), record.volumes)
            if claim is not None)

    def _others(self, record: records.Record) -> Iterator[records.Record]:
        """Yield the other superpositions that the volumes of a record are in."""
        for claim in self._claims(record):
            with contextlib.suppress(errors.NotSuperposed):
                holder = self.store.read(claim.superposition, claim.home)
                yield from (other for other in (holder, self.successor(holder))
                            if other is not None and other.id != record.id)

    def _deciders(self, record: records.Record) -> frozenset[str]:
        """Return the superpositions that decide whether the clients of a record are fenced.

        The predecessor leaves that to a successor, also to the last one that was dropped, until
        another superposition or its own merge begins.
        """
        claims = frozenset(claim.superposition for claim in self._claims(record))
        if record.predecessor not in claims:
            return claims
        with contextlib.suppress(errors.NotSuperposed):
            below = self._below(record)
            if below.state == states.PROMOTED and (
                    below.successor == record.id or self.successor(below) is None):
                return claims - {record.predecessor}
        return claims


def _replaced(record: records.Record, by: records.Record) -> errors.NotSuperposed:
    """Return the error of a request to a superposition whose place another one has taken."""
    return errors.NotSuperposed(
        f'superposition {record.id} has ended: superposition {by.id} has taken its place')
