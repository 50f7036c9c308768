# SPDX-License-Identifier: Apache-2.0
"""RPC server of nova-compute for backups: namespace ``specreds``, version 1.0.

Topic ``compute``, exchange ``nova``, server is the host.
Arguments and results are plain JSON.
"""

from collections.abc import Callable
from typing import Any

import oslo_messaging as messaging
from oslo_utils import uuidutils

from specreds_nova import exception
from specreds_nova import rpcapi
from specreds_nova.beats import boot

# The calls that Backups answers to, under the same names. rpcapi describes them.
_OF_BACKUPS = ('check', 'start', 'status', 'harden', 'promote', 'release', 'abort')


class Endpoint:
    """Passes each call on to the backups of this host.

    :param backups: a backups.Backups
    :param returned: removes the servers that were evacuated from this host while it was away
    """

    target = messaging.Target(namespace=rpcapi.NAMESPACE, version=rpcapi.VERSION)

    def __init__(self, backups: Any, returned: Callable[[], dict[str, Any]]) -> None:
        self._calls: dict[str, Callable[..., dict[str, Any]]] = {
            **{name: getattr(backups, name) for name in _OF_BACKUPS},
            'returned': returned, 'boot': lambda: boot.report()}

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        if name.startswith('_') or name not in self._calls:
            raise AttributeError(name)

        @messaging.expected_exceptions(*exception.EXPECTED)
        def call(ctxt: Any, **arguments: Any) -> dict[str, Any]:
            del ctxt
            if name == 'start':
                _check_ids(**arguments)
            return dict(self._calls[name](**arguments))
        return call  # type: ignore[no-any-return]


def _check_ids(**ids: Any) -> None:
    """Check that ids are UUIDs: they become names of files and consumers in Placement.

    :raises BadRequest: one is not
    """
    for name, value in ids.items():
        if not uuidutils.is_uuid_like(value) or value != str(value).lower():
            raise exception.BadRequest(f'{name} {value!r} is not a UUID in lower case')
