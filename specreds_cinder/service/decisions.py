# SPDX-License-Identifier: Apache-2.0
"""Decisions between the versions of a superposition, on the back end that leads it."""

from collections.abc import Iterator
import contextlib
from typing import Any

from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder.service import backend as backends
from specreds_cinder.service import eligibility
from specreds_cinder.service import hints
from specreds_cinder.superposition.truth import states

LOG = logging.getLogger(__name__)


def promote(backend: backends.Backend, ctxt: Any, superposition_id: str,
            durable: bool) -> backends.View:
    """Decide for the backup, unless the primary has written.

    :param durable: the backup's disks have been flushed, and are flushed from now on
    :raises SuperpositionPending: this service is deciding it already
    """
    shown = backend.show(ctxt, superposition_id)
    with _deciding_on(backend, superposition_id), backend.notified(
            ctxt, 'collapse', backend.view(shown), decision='promote') as end:
        report: backends.View = backend.call(
            ctxt, 'collapse', superposition=superposition_id, durable=durable)
        end['view'] = {**end['view'], 'outcome': report['outcome']}
        end['durations'] = report['durations']
    LOG.info('superposition %s of server %s ended %s in %.0f ms', superposition_id,
             shown['server_id'], report['outcome'], report['durations']['total'] * 1e3)
    if report['outcome'] != states.PROMOTED:
        backends.remove_hints(shown)
        return report
    try:
        eligibility.restore(hints.volumes(superposition_id))
    except Exception as exc:
        # The decision stands, and a backup waits for it.
        LOG.warning('superposition %s is promoted, and its volumes keep the states that they '
                    "have: %s. Nova's requests for attachments restore them", superposition_id,
                    exc)
    return report


def abort(backend: backends.Backend, ctxt: Any, superposition_id: str) -> None:
    """Decide for the primary."""
    shown = backend.show(ctxt, superposition_id)
    if shown['state'] in states.DECIDED:
        raise backends.conflict(
            shown, 'the version of the backup is the real one: it can only be merged')
    with backend.notified(ctxt, 'collapse', backend.view(shown), decision='abort') as end:
        drop(backend, ctxt, superposition_id)
        end['view'] = {**end['view'], 'outcome': states.ABORTED}
    LOG.info('superposition %s of server %s is aborted', superposition_id, shown['server_id'])


def drop(backend: backends.Backend, ctxt: Any, superposition_id: str) -> None:
    """Decide for the primary, also if the superposition is not known to exist."""
    backend.call(ctxt, 'drop', superposition=superposition_id)
    hints.remove([volume.id for volume in hints.volumes(superposition_id)], superposition_id)


@contextlib.contextmanager
def _deciding_on(backend: backends.Backend, superposition_id: str) -> Iterator[None]:
    """Keep a slow decision from being taken for an interrupted one, and made twice.

    :raises SuperpositionPending: this service is deciding on it already
    """
    with backend.lock:
        if superposition_id in backend.deciding:
            raise exception.SuperpositionPending(
                f'superposition {superposition_id} is still collapsing')
        backend.deciding.add(superposition_id)
    try:
        yield
    finally:
        backend.deciding.discard(superposition_id)
