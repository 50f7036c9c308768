# SPDX-License-Identifier: Apache-2.0
"""The passphrases that open encrypted volumes."""

import binascii
from collections.abc import Mapping
from typing import Any

from castellan import key_manager
from cinder import context
from cinder import objects
from oslo_config import cfg

from specreds_cinder import exception
from specreds_cinder import keys
from specreds_cinder.service import backend as backends
from specreds_cinder.service import eligibility
from specreds_cinder.superposition.truth import states

CONF = cfg.CONF


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
