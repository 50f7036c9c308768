# SPDX-License-Identifier: Apache-2.0
"""The housekeeping of a back end: resumes interrupted steps, merges, and renews fences."""

from collections.abc import Collection, Mapping
import contextlib
from typing import Any

from cinder import context
from cinder import exception as cinder_exception
from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder import hints
from specreds_cinder.superposition import states
from specreds_cinder.volume import base
from specreds_cinder.volume import decisions
from specreds_cinder.volume import threads

LOG = logging.getLogger(__name__)

_DIRTY_WAIT_S = 30.0


class Housekeeping(decisions.Decisions):
    """Looks after the superpositions of this back end, whichever service created them."""

    def look_after(self, cut_off: bool = False) -> None:
        """Make one pass: resume interrupted steps, start merges, and renew fences.

        A failure is logged, and the next pass tries again; this never raises.

        :param cut_off: take every unfinished step for interrupted, however recent it is
        """
        ctxt = context.get_admin_context()
        # Notes are older than what is listed: a note that a promotion has replaced since would be
        # missed, and be put in the place of that of its successor.
        noted = hints.on(self._host)
        try:
            superpositions = self._worker(ctxt, 'list')
        except exception.SuperpositionError as exc:
            LOG.warning('cannot list the superpositions of back end %s, trying again at the next '
                        'pass: %s', self._host, exc.msg)
            return
        self._bandwidth.replace(superpositions)
        again = {shown['predecessor'] for shown in superpositions}
        # Thousands may wait for their merges: those whose servers wait for a decision go first.
        # specreds-super made what has no members, and Cinder leaves it to specreds-super.
        ours = sorted((shown for shown in superpositions if 'members' in shown['labels']),
                      key=lambda shown: shown['state'] in states.DECIDED)
        # A decision has a server that waits for it: a pass gives way, and goes on all the same.
        threads.each(
            ours, lambda shown: self._look_after_safely(ctxt, shown, cut_off, noted, again),
            min(base.LOOKS, len(ours)), lambda: bool(self._deciding))
        try:
            self._tidy({shown['id'] for shown in superpositions})
        except exception.SuperpositionError as exc:
            LOG.warning('cannot remove the remains of ended superpositions of back end %s, trying '
                        'again at the next pass: %s', self._host, exc.msg)

    def _look_after_safely(self, ctxt: Any, shown: base.View, cut_off: bool,
                           noted: Mapping[str, hints.Notes], again: Collection[str | None]
                           ) -> None:
        """Look after one superposition.

        :param noted: the notes that there are, by volume id
        :param again: the superpositions that others are over
        """
        try:
            self._note(shown, noted)
            self._look_after(ctxt, shown, cut_off, mergeable=shown['id'] not in again)
        except exception.SuperpositionNotFound:
            self._remove_hints(shown)
        except exception.SuperpositionError as exc:
            LOG.warning('cannot continue superposition %s, which is %s, trying again at the next '
                        'pass: %s', shown['id'], shown['state'], exc.msg)
        except Exception:
            LOG.exception('cannot continue superposition %s, which is %s, trying again at the '
                          'next pass', shown['id'], shown['state'])

    @staticmethod
    def _note(shown: base.View, noted: Mapping[str, hints.Notes]) -> None:
        """Write the notes on volumes that lack them, or have them under the wrong key.

        :param noted: the notes that there are, by volume id
        """
        again = base.is_over_promoted(shown)
        keys = [hints.AGAIN if again else hints.KEY]
        if missing := [volume_id for volume_id in shown['labels']['volumes'].values()
                       if [key for key, superposition in noted.get(volume_id, {}).items()
                           if superposition == shown['id']] != keys]:
            hints.put(missing, shown['id'], again=again)

    def _look_after(self, ctxt: Any, shown: base.View, cut_off: bool, *,
                    mergeable: bool) -> None:
        stale = cut_off or shown['unchanged_seconds'] > base.CONF.specreds.stale_after
        leader = shown['labels']['members'][0]
        if shown['state'] in (states.CREATING, states.ABORTING):
            if stale:
                self._worker(ctxt, 'resume', superposition=shown['id'])
                self._remove_hints(shown)
        elif shown['joint'] and leader != self._host and shown['state'] not in states.DECIDED:
            self._worker(ctxt, 'look_after', superposition=shown['id'])
            if stale:
                self._follow(ctxt, shown, leader)
        elif shown['state'] == states.COLLAPSING:
            if stale and shown['id'] not in self._deciding:
                LOG.info('resuming the interrupted collapse of superposition %s', shown['id'])
                self.collapse(ctxt, shown['id'], False)
        elif shown['state'] in states.DECIDED:
            self._worker(ctxt, 'look_after', superposition=shown['id'])
            if mergeable and shown['unchanged_seconds'] >= base.CONF.specreds.merge_delay:
                self._merge_unused(ctxt, shown)
        else:
            self._worker(ctxt, 'look_after', superposition=shown['id'])

    def _follow(self, ctxt: Any, shown: base.View, leader: str) -> None:
        """Decide as the leader of the set has."""
        try:
            state = self._peers.get(ctxt, leader, shown['id'])['state']
        except exception.SuperpositionNotFound:
            LOG.info('superposition %s is gone on back end %s, which leads it: dropping it here',
                     shown['id'], leader)
            self.member_drop(ctxt, shown['id'], fenced=True)
            return
        if state in states.DECIDED:
            self.member_commit(ctxt, shown['id'])

    def _tidy(self, known: set[str]) -> None:
        """Remove the notes on volumes whose superposition has ended, and its remains in Ceph.

        :param known: ids of the superpositions that exist
        :raises SuperpositionError: Ceph does not answer
        """
        for volume_id, notes in hints.on(self._host).items():
            for superposition_id in set(notes.values()) - known:
                # Under the lock, since the superposition may be under creation.
                with hints.lock(volume_id), contextlib.suppress(cinder_exception.VolumeNotFound):
                    self._remove_stale(volume_id, superposition_id)
        self._worker(None, 'tidy')

    def _remove_stale(self, volume_id: str, superposition_id: str) -> None:
        """Remove the note on a volume, unless the volume is in that superposition."""
        holder = self._worker(None, 'find', image=base.read_volume(volume_id).name)
        holders = set() if holder is None else {holder['id']}
        with contextlib.suppress(exception.SuperpositionNotFound):
            if self._show(None, superposition_id)['predecessor'] in holders:
                holders.add(superposition_id)
        if superposition_id not in holders:
            hints.remove([volume_id], superposition_id)

    def announce_dirty(self) -> None:
        """Wait up to half a minute for a superposition to become dirty, and notify of it."""
        dirty = self._worker(None, 'next_dirty', timeout=_DIRTY_WAIT_S)
        if dirty is None:
            return
        superposition_id, reason = dirty
        LOG.info('superposition %s is dirty: %s', superposition_id, reason)
        with contextlib.suppress(exception.SuperpositionNotFound):
            ctxt = context.get_admin_context()
            view = self._view(self._show(ctxt, superposition_id))
            # Another service of a cluster may have decided by now, and be merging.
            if view['state'] not in states.DECIDED:
                self._notify(ctxt, 'superposition.dirty', view)
