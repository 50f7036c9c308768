# SPDX-License-Identifier: Apache-2.0
"""merge: the overlays of a promoted superposition are written down into its volumes."""

from collections.abc import Iterator
import contextlib
import logging
import threading

from specreds_cinder.superposition import backup as backups
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import merge as merges
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import states
from specreds_cinder.superposition import sweep
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.protocol import end

LOG = logging.getLogger(__name__)

_LOOK_S = 60.0


class Merge(end.Ending):
    """Merges what was promoted."""

    def merge(self, record: records.Record, backup: backups.OnlineMerge | None = None,
              progress: backups.Progress | None = None, rate: int | None = None) -> None:
        """Write the overlays down into the volumes and end the superposition.

        :param backup: the backup that runs, for a merge under its guest; None for an offline
            merge of overlays that nobody has open
        :param progress: called with the bytes merged so far, and all of them
        :param rate: bytes per second at most, 0 for no limit; by default that of the settings
        :raises Conflict: it was not promoted
        :raises MergeFailed: the offline merge failed; nothing is lost, repeat it
        :raises OverlayBusy: somebody has an overlay open; nothing is lost, repeat it
        :raises RecordChanged: somebody is about to open an overlay; nothing is lost, repeat it
        :raises BackupError: the online merge failed; nothing is lost, repeat it
        """
        if backup is None:
            self.unused(record)
        record = self.begin_merge(record)
        if backup is None and record.state == states.MERGING:
            record = self._shut_out(record)
        if record.state == states.MERGING:
            limit = self.settings.merge_bytes_per_s if rate is None else rate
            with self._kept_fenced(record), trace.span('merge', record.id):
                if backup is None:
                    record = self._merge_offline(record, limit, progress)
                else:
                    record = self._merge_online(record, backup, limit, progress)
        elif backup is not None:
            self._switch(record, backup)
        # Whoever still has an overlay open is the server, which is about to let go of it.
        self._clean(record, evict=False)
        LOG.info('superposition %s is merged', record.id)

    def unused(self, record: records.Record) -> None:
        """Make sure that nobody has an overlay open.

        :raises OverlayBusy: somebody has
        """
        with contextlib.suppress(errors.VolumeGone):
            merges.unused(self.cluster, record)

    def _shut_out(self, record: records.Record) -> records.Record:
        """Fence everybody who may still write, so that only the merge does.

        Such as a backup that was promoted and hangs: its watches have expired, and what it was
        told of writes to an overlay that has been read already would be lost.

        :raises OverlayBusy: somebody has an overlay open: it is the server, which runs
        """
        found = self.observe(record, attended=False)
        self.unused(record)
        fenced = found.fenced | set(record.fenced)
        if fenced != set(record.fenced):
            record = self._fencing(record, tuple(sorted(fenced)))
        with trace.span('shut out', record.id):
            self.fence.close(fenced)
            sweep.barrier(self.cluster, record)
        late = self._entries(record).keys() - fenced
        if late:
            raise errors.OverlayBusy(
                f'{", ".join(sorted(late))} opened volumes or overlays of superposition '
                f'{record.id} while the other clients were fenced: merge it again')
        return record

    def begin_merge(self, record: records.Record) -> records.Record:
        """Note that a merge begins, for a hypervisor that drives it by itself.

        :raises Conflict: it was not promoted
        """
        record = self._in(record, states.PROMOTED, states.MERGING, states.MERGED)
        if record.state != states.PROMOTED:
            return record
        return self.store.swap(record, record.moved(states.MERGING))

    def end_merge(self, record: records.Record) -> None:
        """Note that overlay and volume are equal, and the guest stands still until this is over.

        From here on the volume is what is opened. The overlay goes with :meth:`merge`, as soon
        as the hypervisor has released it. May be repeated.

        :raises Conflict: no merge was begun
        """
        record = self._in(record, states.MERGING, states.MERGED)
        if record.state == states.MERGING:
            self._merged(record)

    def _merge_offline(self, record: records.Record, rate: int,
                       progress: backups.Progress | None) -> records.Record:
        try:
            merges.offline(self.cluster, record, self.ledger, rate, self.settings.merge_stall_s,
                           progress)
        except errors.VolumeGone:
            # Another controller was faster: it recorded the end before it removed the overlays.
            return self._in(record, states.MERGED)
        # Whoever was told meanwhile to open the overlays has changed the record.
        return self._merged(record)

    def _merge_online(self, record: records.Record, backup: backups.OnlineMerge, rate: int,
                      progress: backups.Progress | None) -> records.Record:
        """Merge under a running guest.

        Overlay and volume are equal from the end of :meth:`OnlineMerge.settle` until the guest
        goes on, so whichever of them the record names is right. The record changes before any
        disk is switched: until then the guest can go on with its overlays.
        """
        backup.converge(record, rate, progress)
        backup.suspend()
        try:
            backup.settle(record)
            merged = self._merged(record)
        except (errors.BackupError, errors.RecordChanged):
            # Nothing is switched. Where another controller has recorded the end meanwhile, it
            # switches and lets the guest go on itself.
            if self.reload(record).state == states.MERGING:
                backup.proceed()
            raise
        self._switch(merged, backup)
        return merged

    def _switch(self, record: records.Record, backup: backups.OnlineMerge) -> None:
        backup.switch(record)
        backup.proceed()
        backup.release(record)

    def _merged(self, record: records.Record) -> records.Record:
        return self.store.swap(record, record.moved(states.MERGED))

    @contextlib.contextmanager
    def _kept_fenced(self, record: records.Record) -> Iterator[None]:
        """Look after the fence as long as the context lasts."""
        ended = threading.Event()

        def keep() -> None:
            while not ended.wait(min(_LOOK_S, self.settings.fence_expiry_s / 4)):
                try:
                    self.fence.renew(record.fenced)
                except errors.SuperError:
                    LOG.exception('the fence of superposition %s could not be renewed',
                                  record.id)
        self.fence.renew(record.fenced)
        thread = threading.Thread(target=keep, daemon=True, name=f'fence-{record.id[:8]}')
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
