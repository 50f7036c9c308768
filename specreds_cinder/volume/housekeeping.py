# SPDX-License-Identifier: Apache-2.0
"""The housekeeping of a back end: resumes interrupted steps, merges, and renews fences."""

from collections.abc import Mapping
import contextlib
from typing import Any

from cinder import context
from cinder import exception as cinder_exception
from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder import hints
from specreds_cinder.superposition import settings
from specreds_cinder.superposition import states
from specreds_cinder.volume import base
from specreds_cinder.volume import decisions
from specreds_cinder.volume import threads

LOG = logging.getLogger(__name__)

_DIRTY_WAIT_S = 30.0
# Seconds after a promotion, or after a connection was handed out, in which a hypervisor may open
# the volume before this service merges it.
_MERGE_DELAY_S = 60


class Housekeeping(decisions.Decisions):
    """Looks after the superpositions of this back end, whichever service created them."""

    def look_after(self, cut_off: bool = False) -> None:
        """Make one pass: resume interrupted steps, start merges, and renew fences.

        A failure is logged, and the next pass tries again; this never raises.

        :param cut_off: take every unfinished step for interrupted, however recent it is
        """
        ctxt = context.get_admin_context()
        try:
            superpositions = self._worker(ctxt, 'list')
        except exception.SuperpositionError as exc:
            LOG.warning('cannot list the superpositions of back end %s, trying again at the next '
                        'pass: %s', self._host, exc.msg)
            return
        self._bandwidth.replace(superpositions)
        noted = hints.on(self._host)
        # Thousands may wait for their merges: those whose servers wait for a decision go first.
        # specreds-super made what has no members, and Cinder leaves it to specreds-super.
        ours = sorted((shown for shown in superpositions if 'members' in shown['labels']),
                      key=lambda shown: shown['state'] in states.DECIDED)
        # A decision has a server that waits for it: a pass gives way, and goes on all the same.
        threads.each(
            ours, lambda shown: self._look_after_safely(ctxt, shown, cut_off, noted),
            min(base.LOOKS, len(ours)), lambda: bool(self._deciding))
        try:
            self._tidy({shown['id'] for shown in superpositions})
        except exception.SuperpositionError as exc:
            LOG.warning('cannot remove the remains of ended superpositions of back end %s, trying '
                        'again at the next pass: %s', self._host, exc.msg)

    def _look_after_safely(self, ctxt: Any, shown: base.View, cut_off: bool,
                           noted: Mapping[str, str]) -> None:
        try:
            self._note(shown, noted)
            self._look_after(ctxt, shown, cut_off)
        except exception.SuperpositionNotFound:
            self._remove_hints(shown)
        except exception.SuperpositionError as exc:
            LOG.warning('cannot continue superposition %s, which is %s, trying again at the next '
                        'pass: %s', shown['id'], shown['state'], exc.msg)
        except Exception:
            LOG.exception('cannot continue superposition %s, which is %s, trying again at the '
                          'next pass', shown['id'], shown['state'])

    @staticmethod
    def _note(shown: base.View, noted: Mapping[str, str]) -> None:
        """Write the notes on volumes that lack them.

        :param noted: the notes that there are, by volume id
        """
        if missing := [volume_id for volume_id in shown['labels']['volumes'].values()
                       if noted.get(volume_id) != shown['id']]:
            hints.put(missing, shown['id'])

    def _look_after(self, ctxt: Any, shown: base.View, cut_off: bool) -> None:
        stale = cut_off or shown['unchanged_seconds'] > settings.Settings.stale_after_s
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
            if shown['unchanged_seconds'] >= _MERGE_DELAY_S:
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
        for volume_id, superposition_id in hints.on(self._host).items():
            if superposition_id in known:
                continue
            # Under the lock, since the superposition may be under creation.
            with hints.lock(volume_id), contextlib.suppress(cinder_exception.VolumeNotFound):
                shown = self._worker(None, 'find', image=base.read_volume(volume_id).name)
                if shown is None or shown['id'] != superposition_id:
                    hints.remove([volume_id], superposition_id)
        self._worker(None, 'tidy')

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
