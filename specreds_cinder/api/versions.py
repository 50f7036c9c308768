# SPDX-License-Identifier: Apache-2.0
"""The version of the resource, negotiated as microversions are, apart from Cinder's own.

The header is ``OpenStack-API-Version: superposition 1.0``; others may ask for a version of the
block storage API in the same header, which is of no concern here.
"""

from collections.abc import Callable, MutableMapping
import functools
from typing import Any

from cinder.api.openstack import wsgi
import microversion_parse
import webob.exc

SERVICE_TYPE = 'superposition'
# From the oldest to the newest.
VERSIONS = ['1.0']

_HEADER = wsgi.API_VERSION_REQUEST_HEADER
_Action = Callable[..., Any]


def negotiated(action: _Action) -> _Action:
    """Let an action of a controller have a request only in a version that there is.

    :raises Fault: 406 for a version that there is not, 400 for what is no version
    """
    @functools.wraps(action)
    def wrapper(self: Any, req: wsgi.Request, **arguments: Any) -> wsgi.ResponseObject:
        version = VERSIONS[-1]
        try:
            with wsgi.ResourceExceptionHandler():
                version = str(_asked(req))
                answer = action(self, req, **arguments)
        except wsgi.Fault as fault:
            _stamp(fault.wrapped_exc.headers, version)
            raise
        if not isinstance(answer, wsgi.ResponseObject):
            answer = wsgi.ResponseObject(answer)
        _stamp(answer, version)
        return answer
    return wrapper


def _asked(req: wsgi.Request) -> microversion_parse.Version:
    try:
        return microversion_parse.extract_version(req.headers, SERVICE_TYPE, VERSIONS)
    except TypeError:
        raise webob.exc.HTTPBadRequest(
            explanation=f'{_HEADER} names no version of {SERVICE_TYPE}: it has to be like '
                        f'"{SERVICE_TYPE} {VERSIONS[0]}"') from None
    except ValueError:
        raise webob.exc.HTTPNotAcceptable(
            explanation=f'this version of {SERVICE_TYPE} is not supported: there are '
                        f'{VERSIONS[0]} to {VERSIONS[-1]}') from None


def _stamp(headers: MutableMapping[str, str], version: str) -> None:
    headers[_HEADER] = f'{SERVICE_TYPE} {version}'
    headers['Vary'] = _HEADER
