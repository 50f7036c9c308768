# SPDX-License-Identifier: Apache-2.0
"""The housekeeping of a back end: resumes interrupted steps, merges, and renews fences."""

from collections.abc import Mapping
import contextlib
from typing import Any

from cinder import context
from cinder import exception as cinder_exception
from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder.service import backend as backends
from specreds_cinder.service import decisions
from specreds_cinder.service import hints
from specreds_cinder.service import merging
from specreds_cinder.service import threads
from specreds_cinder.superposition import settings
from specreds_cinder.superposition.truth import states

LOG = logging.getLogger(__name__)

_DIRTY_WAIT_S = 30.0
# Seconds after a promotion, or after a connection was handed out, in which a hypervisor may open
# the volume before this service merges it.
_MERGE_DELAY_S = 60


def look_after(backend: backends.Backend, cut_off: bool = False) -> None:
    """Make one pass: resume interrupted steps, start merges, and renew fences.

    A failure is logged, and the next pass tries again; this never raises.

    :param cut_off: take every unfinished step for interrupted, however recent it is
    """
    ctxt = context.get_admin_context()
    try:
        superpositions = backend.call(ctxt, 'list')
    except exception.SuperpositionError as exc:
        LOG.warning('cannot list the superpositions of back end %s, trying again at the next '
                    'pass: %s', backend.host, exc.msg)
        return
    led = [shown for shown in superpositions if backend.leads(shown)]
    noted = {volume_id: superposition_id for notes in hints.everywhere().values()
             for volume_id, superposition_id in notes.items()}
    # Thousands may wait for their merges: those whose servers wait for a decision go first.
    # specreds-super made what has no members, and Cinder leaves it to specreds-super.
    ours = sorted((shown for shown in led if 'members' in shown['labels']),
                  key=lambda shown: shown['state'] in states.DECIDED)
    # A decision has a server that waits for it: a pass gives way, and goes on all the same.
    threads.each(
        ours, lambda shown: _look_after_safely(backend, ctxt, shown, cut_off, noted),
        min(backends.LOOKS, len(ours)), lambda: bool(backend.deciding))
    try:
        _tidy(backend, {shown['id'] for shown in superpositions})
    except exception.SuperpositionError as exc:
        LOG.warning('cannot remove the remains of ended superpositions of back end %s, trying '
                    'again at the next pass: %s', backend.host, exc.msg)


def _look_after_safely(backend: backends.Backend, ctxt: Any, shown: backends.View, cut_off: bool,
                       noted: Mapping[str, str]) -> None:
    try:
        _note(shown, noted)
        _look_after(backend, ctxt, shown, cut_off)
    except exception.SuperpositionNotFound:
        backends.remove_hints(shown)
    except exception.SuperpositionError as exc:
        LOG.warning('cannot continue superposition %s, which is %s, trying again at the next '
                    'pass: %s', shown['id'], shown['state'], exc.msg)
    except Exception:
        LOG.exception('cannot continue superposition %s, which is %s, trying again at the '
                      'next pass', shown['id'], shown['state'])


def _note(shown: backends.View, noted: Mapping[str, str]) -> None:
    """Write the notes on volumes that lack them.

    :param noted: the notes that there are, by volume id
    """
    if missing := [volume_id for volume_id in shown['labels']['volumes'].values()
                   if noted.get(volume_id) != shown['id']]:
        hints.put(missing, shown['id'])


def _look_after(backend: backends.Backend, ctxt: Any, shown: backends.View, cut_off: bool) -> None:
    stale = cut_off or shown['unchanged_seconds'] > settings.Settings.stale_after_s
    if shown['state'] in (states.CREATING, states.ABORTING):
        if stale:
            backend.call(ctxt, 'resume', superposition=shown['id'])
            backends.remove_hints(shown)
    elif shown['state'] == states.COLLAPSING:
        if stale and shown['id'] not in backend.deciding:
            LOG.info('resuming the interrupted collapse of superposition %s', shown['id'])
            decisions.promote(backend, ctxt, shown['id'], False)
    elif shown['state'] in states.DECIDED:
        backend.call(ctxt, 'look_after', superposition=shown['id'])
        if shown['unchanged_seconds'] >= _MERGE_DELAY_S:
            merging.merge_unused(backend, ctxt, shown)
    else:
        backend.call(ctxt, 'look_after', superposition=shown['id'])


def _tidy(backend: backends.Backend, known: set[str]) -> None:
    """Remove the notes on volumes whose superposition has ended, and its remains in Ceph.

    :param known: ids of the superpositions that exist
    :raises SuperpositionError: Ceph does not answer
    """
    # First of all: a primary that lives may be shut out by a fence that has come late.
    backend.call(None, 'tidy')
    for volume_id, superposition_id in hints.on(backend.host).items():
        if superposition_id in known:
            continue
        # Under the lock, since the superposition may be under creation.
        with hints.lock(volume_id), contextlib.suppress(cinder_exception.VolumeNotFound):
            shown = backend.call(None, 'find', image=backends.read_volume(volume_id).name)
            if shown is None or shown['id'] != superposition_id:
                hints.remove([volume_id], superposition_id)


def announce_dirty(backend: backends.Backend) -> None:
    """Wait up to half a minute for a superposition to become dirty, and notify of it."""
    dirty = backend.call(None, 'next_dirty', timeout=_DIRTY_WAIT_S)
    if dirty is None:
        return
    superposition_id, reason = dirty
    LOG.info('superposition %s is dirty: %s', superposition_id, reason)
    with contextlib.suppress(exception.SuperpositionNotFound):
        ctxt = context.get_admin_context()
        view = backend.view(backend.show(ctxt, superposition_id))
        # Another service of a cluster may have decided by now, and be merging.
        if view['state'] not in states.DECIDED:
            backend.notify(ctxt, 'superposition.dirty', view)
