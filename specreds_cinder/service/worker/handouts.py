# SPDX-License-Identifier: Apache-2.0
"""Looks for the clients to which a connection to a promoted version was handed out."""

from collections.abc import Mapping
import contextlib
import logging
import threading
import time

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.truth import states

LOG = logging.getLogger(__name__)

# Ceph lists a client that hangs for half a minute.
_INTERVAL_S = 5.0
# A merge that has begun ends the look, and it begins much earlier if no client opens anything.
_LONGEST_S = 3600.0
# The QEMU of a server has one client for the overlay, and one for the volume below it.
_CLIENTS = 2


class HandOuts:
    """The connections that were handed out, by superposition. Safe to share between threads."""

    def __init__(self, protocol: sp.Protocol) -> None:
        self._protocol = protocol
        # By superposition: the time of the hand-out whose clients are looked for, and the time of
        # the hand-out whose look has ended last, with the time of that end.
        self._looks: dict[str, str] = {}
        self._ended: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def __contains__(self, superposition: str) -> bool:
        """Return whether the clients of a superposition are looked for."""
        return superposition in self._looks

    def begin(self, record: sp.Record, handed_at: str) -> None:
        """Enter clients into the ledgers until the clients of a hand-out have come, in a thread.

        Nothing happens if they are looked for already, or have come. A client that opens an
        overlay and hangs stays listed for longer than the time between two looks, so that it is
        in the ledger when a merge begins.

        :param handed_at: time of the hand-out, as recorded
        """
        with self._lock:
            if handed_at in (self._looks.get(record.id), self._ended.get(record.id, ('',))[0]):
                return
        before = self._known(record)
        with self._lock:
            # An earlier look at the same superposition ends.
            self._looks[record.id] = handed_at
        threading.Thread(target=self._look, args=(record, before, handed_at), daemon=True,
                         name=f'hand-out-{record.id[:8]}').start()

    def _look(self, record: sp.Record, before: Mapping[sp.VolumeRef, frozenset[str]],
              handed_at: str) -> None:
        deadline = time.monotonic() + _LONGEST_S
        try:
            while self._looks.get(record.id) == handed_at and time.monotonic() < deadline:
                try:
                    if self._come(record, before):
                        self._end(record.id, handed_at)
                        return
                except sp.SuperError as exc:
                    LOG.warning('cannot look for the clients that open superposition %s, trying '
                                'again: %s', record.id, exc)
                time.sleep(_INTERVAL_S)
        finally:
            with self._lock:
                if self._looks.get(record.id) == handed_at:
                    del self._looks[record.id]

    def _end(self, superposition: str, handed_at: str) -> None:
        now = time.monotonic()
        with self._lock:
            self._ended = {other: end for other, end in self._ended.items()
                           if now - end[1] < _LONGEST_S}
            self._ended[superposition] = handed_at, now

    def _come(self, record: sp.Record, before: Mapping[sp.VolumeRef, frozenset[str]]) -> bool:
        """Return whether the clients are in the ledgers, or are not needed there."""
        try:
            if self._protocol.reload(record).state != states.PROMOTED:
                return True
        except sp.NotSuperposed:
            return True
        with contextlib.suppress(sp.RecordChanged):
            self._protocol.observe(record)
        known = self._known(record)
        return all(
            len(known[volume.ref] - before[volume.ref]) >= _CLIENTS for volume in record.volumes)

    def _known(self, record: sp.Record) -> dict[sp.VolumeRef, frozenset[str]]:
        return {volume.ref: frozenset(self._protocol.ledger.read(volume))
                for volume in record.volumes}
