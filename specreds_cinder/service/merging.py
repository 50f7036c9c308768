# SPDX-License-Identifier: Apache-2.0
"""Merges by the volume service, in threads, of promoted versions that no server has open."""

import binascii
from collections.abc import Callable, Iterator, Mapping
import contextlib
import functools
import time
from typing import Any

from castellan import key_manager
from cinder import context
from cinder import coordination
from cinder import objects
from oslo_config import cfg
from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder import keys
from specreds_cinder.service import backend as backends
from specreds_cinder.service import eligibility
from specreds_cinder.superposition.truth import states

LOG = logging.getLogger(__name__)
CONF = cfg.CONF


def start(backend: backends.Backend, ctxt: Any, shown: backends.View) -> None:
    """Merge in a thread, unless this service is merging the superposition already."""
    if _enter(backend, shown):
        backend.looks.run(functools.partial(_examine, backend, ctxt, shown))


def merge_unused(backend: backends.Backend, ctxt: Any, shown: backends.View) -> None:
    """Merge in a thread, unless this service merges the superposition or a server runs on it.

    Whether one does is examined by the caller's thread.
    """
    if _enter(backend, shown):
        _examine(backend, ctxt, shown)


def _enter(backend: backends.Backend, shown: backends.View) -> bool:
    with backend.lock:
        if shown['id'] in backend.being_merged:
            return False
        backend.being_merged.add(shown['id'])
        return True


def _leave(backend: backends.Backend, shown: backends.View) -> None:
    with backend.lock:
        backend.being_merged.discard(shown['id'])


def _examine(backend: backends.Backend, ctxt: Any, shown: backends.View) -> None:
    """Let a superposition wait for its turn to be merged, if no server runs on its overlays.

    Most servers do, and are merged by their hypervisors: they must not take the turns of those
    that have nobody else.
    """
    if not _tried(backend, ctxt, shown, _check_unused):
        _leave(backend, shown)
        return
    # What only has to be removed waits for no merge.
    turns = backend.cleanings if shown['state'] == states.MERGED else backend.merges
    turns.run(functools.partial(_merge, backend, ctxt, shown))


def _merge(backend: backends.Backend, ctxt: Any, shown: backends.View) -> None:
    try:
        _tried(backend, ctxt, shown, _merge_alone)
    finally:
        _leave(backend, shown)


def _tried(backend: backends.Backend, ctxt: Any, shown: backends.View,
           step: Callable[[backends.Backend, Any, backends.View], None]) -> bool:
    """Take a step of a merge; return False after an error, which is logged."""
    try:
        with contextlib.suppress(exception.SuperpositionNotFound):
            step(backend, ctxt, shown)
            return True
        # A superposition that is gone has been merged.
        backends.remove_hints(shown)
    except exception.SuperpositionConflict as exc:
        LOG.info('superposition %s cannot be merged yet, trying again later: %s',
                 shown['id'], exc.msg)
    except exception.SuperpositionError as exc:
        LOG.warning('superposition %s could not be merged, trying again later: %s',
                    shown['id'], exc.msg)
    except Exception:
        LOG.exception('superposition %s could not be merged, trying again later', shown['id'])
    return False


def _merge_alone(backend: backends.Backend, ctxt: Any, shown: backends.View) -> None:
    with _merge_lock(backend.host, shown['id']), \
            contextlib.suppress(exception.SuperpositionNotFound):
        _merge_locked(backend, ctxt, shown)
    backends.remove_hints(shown)


def _check_unused(backend: backends.Backend, ctxt: Any, shown: backends.View) -> None:
    """Make sure that no server runs on overlays.

    A server that runs on its overlays is no failure, so no notification is sent for it.

    :raises SuperpositionConflict: a server does
    """
    backend.call(ctxt, 'unused', superposition=shown['id'])


def _merge_locked(backend: backends.Backend, ctxt: Any, shown: backends.View) -> None:
    # A server may have been started meanwhile.
    backend.call(ctxt, 'unused', superposition=shown['id'])
    began = time.monotonic()
    with backend.notified(ctxt, 'merge', backend.view(shown)) as end:
        backend.call(ctxt, 'merge', superposition=shown['id'],
                     keys=passphrases(shown))
        end['durations'] = {'total': time.monotonic() - began}
    LOG.info('superposition %s of server %s is merged', shown['id'], shown['server_id'])


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


def passphrases(shown: Mapping[str, Any]) -> dict[str, str]:
    """Return the passphrases for the merge of a superposition, by image.

    :raises SuperpositionUnavailable: the key manager does not return a key
    """
    if shown['state'] == states.MERGED:
        return {}
    ids = list(shown['labels'].get('volumes', {}).values())
    images = {backends.image_name(volume): volume['image'] for volume in shown['volumes']}
    return {images[volume.name]: _passphrase(volume) for volume in eligibility.volumes(ids)
            if volume.encryption_key_id}


def _passphrase(volume: objects.Volume) -> str:
    """Return a passphrase as Cinder's drivers and Nova derive it from the volume's key."""
    try:
        key = keys.within_limit(lambda: _ask(volume.encryption_key_id))
    except Exception as exc:
        raise exception.SuperpositionUnavailable(
            f'the key manager does not return the key of volume {volume.id} to this service '
            f'({type(exc).__name__}): give it credentials that may read the key, or start the '
            f'server, which merges the volume itself') from exc
    return binascii.hexlify(key).decode()


def _ask(key_id: str) -> bytes:
    """Return a key from the key manager."""
    key = key_manager.API(CONF).get(keys.credentials(CONF, context.get_admin_context()), key_id)
    return key.get_encoded() or b''
