# SPDX-License-Identifier: Apache-2.0
"""Merges by the volume service, in threads, of promoted versions that no server has open."""

from collections.abc import Callable, Iterator
import contextlib
import functools
import time
from typing import Any

from cinder import context
from cinder import coordination
from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder import hints
from specreds_cinder import server_disks
from specreds_cinder.superposition import merge_rate
from specreds_cinder.superposition import settings
from specreds_cinder.superposition import states
from specreds_cinder.volume import base
from specreds_cinder.volume import encryption
from specreds_cinder.volume import sets

LOG = logging.getLogger(__name__)


class Merging(sets.Sets):
    """Merges promoted superpositions of this back end."""

    def merging(self, ctxt: Any) -> base.View:
        """Return the number of disks that are merged, and the back end's cluster and pool."""
        del ctxt
        fsid, pool = self._driver.location
        return {'fsid': fsid, 'pool': pool, 'disks': self._bandwidth.disks}

    def count_others(self) -> None:
        """Count what other back ends merge in this Ceph cluster, while this one merges, too.

        A back end that does not answer counts as before: compute hosts go on with its merges.
        """
        if not (base.CONF.specreds.merge_cluster_bytes_per_second and self._bandwidth.disks):
            self._bandwidth.replace_others({})
            return
        ctxt = context.get_admin_context()
        here, before = self._driver.location, self._bandwidth.others
        counts: dict[str, tuple[str, int]] = {}
        # No volume has a note if only disks of servers are merged.
        noted = hints.backends() | {server_disks.configured() or self._host}
        for host in noted - {self._host}:
            try:
                other = self._peers.merging(ctxt, host)
            except exception.SuperpositionInvalid as exc:
                LOG.debug('%s', exc.msg)
            except exception.SuperpositionError as exc:
                LOG.info('back end %s does not report what it merges: %s', host, exc.msg)
                if host in before:
                    counts[host] = before[host]
            else:
                # A back end of the same pool merges what this one merges.
                if other['fsid'] == here[0] and other['pool'] != here[1]:
                    counts[host] = other['pool'], other['disks']
        self._bandwidth.replace_others(counts)

    def _start_merge(self, ctxt: Any, shown: base.View) -> None:
        """Merge in a thread, unless this service is merging the superposition already."""
        if self._enter(shown):
            self._looks.run(functools.partial(self._examine, ctxt, shown))

    def _merge_unused(self, ctxt: Any, shown: base.View) -> None:
        """Merge in a thread, unless this service merges the superposition or a server runs on it.

        Whether one does is examined by the caller's thread.
        """
        if self._enter(shown):
            self._examine(ctxt, shown)

    def _enter(self, shown: base.View) -> bool:
        with self._lock:
            if shown['id'] in self._merging:
                return False
            self._merging.add(shown['id'])
            return True

    def _leave(self, shown: base.View) -> None:
        with self._lock:
            self._merging.discard(shown['id'])

    def _examine(self, ctxt: Any, shown: base.View) -> None:
        """Let a superposition wait for its turn to be merged, if no server runs on its overlays.

        Most servers do, and are merged by their hypervisors: they must not take the turns of those
        that have nobody else.
        """
        if not self._tried(ctxt, shown, self._check_unused):
            self._leave(shown)
            return
        # What only has to be removed waits for no merge.
        turns = self._cleanings if shown['state'] == states.MERGED else self._merges
        turns.run(functools.partial(self._merge, ctxt, shown))

    def _merge(self, ctxt: Any, shown: base.View) -> None:
        try:
            self._tried(ctxt, shown, self._merge_alone)
        finally:
            self._leave(shown)

    def _tried(self, ctxt: Any, shown: base.View,
               step: Callable[[Any, base.View], None]) -> bool:
        """Take a step of a merge; return False after an error, which is logged."""
        try:
            with contextlib.suppress(exception.SuperpositionNotFound):
                step(ctxt, shown)
                return True
            # A superposition that is gone has been merged.
            self._remove_hints(shown)
        except exception.SuperpositionConflict as exc:
            LOG.info('superposition %s cannot be merged yet, trying again later: %s',
                     shown['id'], exc.msg)
        except exception.SuperpositionError as exc:
            LOG.warning('superposition %s could not be merged, trying again later: %s',
                        shown['id'], exc.msg)
        except Exception:
            LOG.exception('superposition %s could not be merged, trying again later', shown['id'])
        return False

    def _merge_alone(self, ctxt: Any, shown: base.View) -> None:
        with _merge_lock(self._host, shown['id']), \
                contextlib.suppress(exception.SuperpositionNotFound):
            self._merge_locked(ctxt, shown)
        self._remove_hints(shown)

    def _check_unused(self, ctxt: Any, shown: base.View) -> None:
        """Make sure that no server runs on overlays that all back ends know to be promoted.

        A server that runs on its overlays is no failure, so no notification is sent for it.

        :raises SuperpositionConflict: a server does
        """
        members = shown['labels']['members']
        if members[0] == self._host:
            # The others read the leader's record until they are committed, too.
            for host in members[1:]:
                self._on(ctxt, host, 'commit', superposition_id=shown['id'])
        self._worker(ctxt, 'unused', superposition=shown['id'])

    def _merge_locked(self, ctxt: Any, shown: base.View) -> None:
        # A server may have been started meanwhile.
        self._worker(ctxt, 'unused', superposition=shown['id'])
        began = time.monotonic()
        with self._notified(ctxt, 'merge', self._view(shown)) as end:
            with self._sharing(shown) as rate:
                self._worker(ctxt, 'merge', superposition=shown['id'], rate=rate,
                             keys=encryption.passphrases(shown))
            end['durations'] = {'total': time.monotonic() - began}
        LOG.info('superposition %s of server %s is merged', shown['id'], shown['server_id'])

    @contextlib.contextmanager
    def _sharing(self, shown: base.View) -> Iterator[int]:
        """Count a merge of this service, and yield its rate, which it has until its end."""
        share = self._bandwidth.share(shown)
        self._bandwidth.note(shown, states.MERGING)
        try:
            yield merge_rate.lowest(settings.Settings.merge_bytes_per_second, share)
        finally:
            self._bandwidth.note(shown, states.MERGED)

    def _remove_hints(self, shown: base.View) -> None:
        """Remove Cinder's notes that volumes are in a superposition, which has ended."""
        hints.remove(shown['labels'].get('volumes', {}).values(), shown['id'])


@contextlib.contextmanager
def _merge_lock(host: str, superposition_id: str) -> Iterator[None]:
    """Keep other services of a cluster from merging the same on its back end.

    A service that still read an overlay after another one had merged it would write old data into
    a volume that is in use again.

    :raises SuperpositionConflict: another service merges it
    """
    name = f'superposition-merge-{host}-{superposition_id}'
    lock = coordination.COORDINATOR.get_lock(name)
    if not lock.acquire(blocking=False):
        raise exception.SuperpositionConflict(
            f'another volume service merges superposition {superposition_id}',
            state=states.MERGING)
    try:
        yield
        # Nothing is left to merge, so the lock's file may go.
        coordination.synchronized_remove(name)
    finally:
        lock.release()
