# SPDX-License-Identifier: Apache-2.0
"""The resource's own version, negotiated like a microversion, apart from Cinder's.

The header is ``OpenStack-API-Version: superposition 1.0``. A version of the Block Storage API in
the same header is ignored here.

Version 1.1 added ``again`` of *Create*, and ``predecessor`` of the answers. Version 1.2 added
``host`` of *Eligibility*, and ``fenceable`` and ``movable`` of the answer. Version 1.3 added the
outcome ``unproven``, and ``unproven`` of the answer to *Check*: to older callers, what is unproven
is dirty.
"""

from collections.abc import Callable, MutableMapping
import functools
from typing import Any

from cinder.api.openstack import wsgi
import microversion_parse
import webob.exc

SERVICE_TYPE = 'superposition'
# From the oldest to the newest.
VERSIONS = ['1.0', '1.1', '1.2', '1.3']
AGAIN = microversion_parse.parse_version_string('1.1')
FENCEABLE = microversion_parse.parse_version_string('1.2')
UNPROVEN = microversion_parse.parse_version_string('1.3')

_KEY = 'specreds.version'
_HEADER = wsgi.API_VERSION_REQUEST_HEADER
_Action = Callable[..., Any]


def negotiated(action: _Action) -> _Action:
    """Decorate a controller's action: pass on only requests for a supported version.

    :raises Fault: 406 for an unsupported version, 400 for a malformed one
    """
    @functools.wraps(action)
    def wrapper(self: Any, req: wsgi.Request, **arguments: Any) -> wsgi.ResponseObject:
        version = VERSIONS[-1]
        try:
            with wsgi.ResourceExceptionHandler():
                req.environ[_KEY] = _asked(req)
                version = str(of(req))
                answer = action(self, req, **arguments)
        except wsgi.Fault as exc:
            _stamp(exc.wrapped_exc.headers, version)
            raise
        if not isinstance(answer, wsgi.ResponseObject):
            answer = wsgi.ResponseObject(answer)
        _stamp(answer, version)
        return answer
    return wrapper


def of(req: wsgi.Request) -> microversion_parse.Version:
    """Return the version of a request for which an action was called."""
    version: microversion_parse.Version = req.environ[_KEY]
    return version


def _asked(req: wsgi.Request) -> microversion_parse.Version:
    try:
        return microversion_parse.extract_version(req.headers, SERVICE_TYPE, VERSIONS)
    except TypeError:
        raise webob.exc.HTTPBadRequest(
            explanation=f'{_HEADER} has a malformed version of {SERVICE_TYPE}: use the form '
                        f'"{SERVICE_TYPE} {VERSIONS[0]}"') from None
    except ValueError:
        raise webob.exc.HTTPNotAcceptable(
            explanation=f'the requested version of {SERVICE_TYPE} is not supported: use one from '
                        f'{VERSIONS[0]} to {VERSIONS[-1]}') from None


def _stamp(headers: MutableMapping[str, str], version: str) -> None:
    headers[_HEADER] = f'{SERVICE_TYPE} {version}'
    headers['Vary'] = _HEADER
