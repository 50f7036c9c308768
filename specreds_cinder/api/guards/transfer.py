# SPDX-License-Identifier: Apache-2.0
"""Guard of transfers between projects: refuses superposed volumes."""

from collections.abc import Iterable, Mapping
from typing import Any

from cinder.transfer import api

from specreds_cinder.api.guards import check


def _volume(_api: Any, call: Mapping[str, Any]) -> Iterable[str]:
    return [call['volume_id']]


def _offered(transfers: Any, call: Mapping[str, Any]) -> Iterable[str]:
    # The project that accepts a volume cannot see the volume before the transfer.
    offer = transfers.db.transfer_get(call['context'].elevated(), call['transfer_id'])
    return [offer['volume_id']]


class TransferAPI(api.API):
    """Cinder's class with methods that refuse superposed volumes."""

    accept = check.guarded(api.API.accept, 'transferred', _offered)
    create = check.guarded(api.API.create, 'transferred', _volume)
