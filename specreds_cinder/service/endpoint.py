# SPDX-License-Identifier: Apache-2.0
"""RPC endpoint of a volume service: namespace ``specreds``, version 1.0.

Arguments and answers are plain JSON values. An error is an answer, too: whether an exception
survives its way to the caller depends on the modules that the caller has imported.
"""

from collections.abc import Callable, Mapping
import functools
import math
import time
from typing import Any

from oslo_log import log as logging
import oslo_messaging as messaging

from specreds_cinder import exception

LOG = logging.getLogger(__name__)

NAMESPACE = 'specreds'
VERSION = '1.0'


class Endpoint:
    """Calls the functions that answer for a back end.

    A call may have the argument ``expires_at``, in seconds since the epoch. After that time no
    caller waits for the answer, and the call is refused.

    :param backend: returns the back end
    :param methods: the functions by name, each of which takes the back end, the context of the
        request, and the arguments of the call
    """

    target = messaging.Target(namespace=NAMESPACE, version=VERSION)

    def __init__(self, backend: Callable[[], Any],
                 methods: Mapping[str, Callable[..., Any]]) -> None:
        self._backend = backend
        self._methods = methods

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        if name.startswith('_') or name not in self._methods:
            raise AttributeError(name)
        return functools.partial(self._answer, name)

    def _answer(self, method: str, ctxt: Any, *, expires_at: float = math.inf,
                **arguments: Any) -> dict[str, Any]:
        try:
            if time.time() > expires_at:
                raise exception.SuperpositionUnavailable(
                    f'the request to {method} is too old: repeat it')
            return {'result': self._methods[method](self._backend(), ctxt, **arguments)}
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
