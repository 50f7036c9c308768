# SPDX-License-Identifier: Apache-2.0
"""RPC endpoint of a volume service: namespace ``specreds``, version 1.0.

Arguments and answers are plain JSON values. An error is an answer, too: whether an exception
survives its way to the caller depends on the modules that the caller has imported.
"""

from collections.abc import Callable
import functools
from typing import Any

from oslo_log import log as logging
import oslo_messaging as messaging

from specreds_cinder import exception

LOG = logging.getLogger(__name__)

NAMESPACE = 'specreds'
VERSION = '1.0'

# Methods of service.BackendSuperpositions: for the API, and for other back ends.
METHODS = frozenset({
    'create', 'get', 'list', 'check', 'collapse', 'abort', 'merge', 'merging', 'connection',
    'current_connection', 'eligibility',
    'fence_observe', 'fence_host', 'fence_disks_observe', 'fence_disks', 'release_booted',
    'member_create', 'member_check', 'member_prepare', 'member_commit', 'member_drop',
})


class Endpoint:
    """Passes each call on to a back end's :class:`service.BackendSuperpositions`.

    :param superpositions: returns the back end's instance
    """

    target = messaging.Target(namespace=NAMESPACE, version=VERSION)

    def __init__(self, superpositions: Callable[[], Any]) -> None:
        self._superpositions = superpositions

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        if name not in METHODS:
            raise AttributeError(name)
        return functools.partial(self._answer, name)

    def _answer(self, method: str, ctxt: Any, **arguments: Any) -> dict[str, Any]:
        try:
            return {'result': getattr(self._superpositions(), method)(ctxt, **arguments)}
        except exception.SuperpositionError as exc:
            LOG.info('%s was refused: %s', method, exc.msg)
            error = exc
        except Exception as exc:
            LOG.exception('%s failed', method)
            error = exception.SuperpositionError(
                f'{method} failed in the volume service ({type(exc).__name__}): see the log of '
                f'the service')
        # A subclass that the other side may lack is sent as its base in the module of errors.
        kind = next(kind for kind in type(error).__mro__ if kind.__module__ == exception.__name__)
        return {'error': {'type': kind.__name__, 'reason': error.msg,
                          'state': error.state, 'reasons': list(error.reasons)}}
