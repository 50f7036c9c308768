# SPDX-License-Identifier: Apache-2.0
"""The renewal of a record during a step that takes longer than a step that was interrupted."""

import dataclasses
import time

from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import store as stores

# A renewal may be late by a call to Ceph that takes all of its time, and still be in time.
_PARTS = 12


class Renewal:
    """Renews a record, so that no other controller takes its decision for interrupted.

    One for a whole decision. Each renewal is a compare-and-swap. Of two controllers that decide
    all the same, the one that was there first goes on: it renews the record that the other one has
    read before that one is due. Where the first one has hung, it finds the record changed, and
    gives up.

    :param stale_after_s: seconds without a change after which a decision counts as interrupted
    :ivar record: the record as it was last written, which the decision may change as well
    """

    def __init__(self, store: stores.Store, record: records.Record, stale_after_s: float) -> None:
        self._store = store
        self._interval_s = stale_after_s / _PARTS
        self._due = time.monotonic() + self._interval_s
        self.record = record

    def renew(self) -> None:
        """Renew the record if that is due.

        :raises RecordChanged: another controller has changed it
        :raises NotSuperposed: another controller has ended the superposition
        """
        if time.monotonic() < self._due:
            return
        self.record = self._store.swap(
            self.record, dataclasses.replace(self.record, updated_at=records.now()))
        self._due = time.monotonic() + self._interval_s
