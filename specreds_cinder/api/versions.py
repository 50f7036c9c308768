# SPDX-License-Identifier: Apache-2.0
"""The resource's own version, negotiated like a microversion, apart from Cinder's.

The header is ``OpenStack-API-Version: superposition 1.0``. A version of the Block Storage API in
the same header is ignored here.
"""

from collections.abc import Callable, Mapping, MutableMapping
import functools
from http import HTTPStatus
import json
from typing import Any

from cinder.api.openstack import wsgi
import microversion_parse
import webob.dec
import webob.exc

SERVICE_TYPE = 'superposition'
# From the oldest to the newest.
VERSIONS = ['1.0']

# As Cinder and Nova describe versions of theirs; Placement calls the newest one max_version.
DESCRIPTION = {'id': SERVICE_TYPE, 'status': 'CURRENT', 'min_version': VERSIONS[0],
               'version': VERSIONS[-1], 'max_version': VERSIONS[-1]}

_HEADER = wsgi.API_VERSION_REQUEST_HEADER
_Action = Callable[..., Any]


class _Fault(wsgi.Fault):
    """An error whose body has more fields than Cinder's own errors, for programs.

    :param version: the version of the resource that the answer has
    :param details: the further fields
    """

    def __init__(self, error: webob.exc.HTTPException, version: str,
                 details: Mapping[str, str]) -> None:
        super().__init__(error)
        self._version = version
        self._details = dict(details)
        _stamp(error.headers, version)

    @webob.dec.wsgify(RequestClass=wsgi.Request)
    def __call__(self, req: wsgi.Request) -> webob.Response:
        """Return the answer."""
        answer: webob.Response = super().__call__(req)
        body = json.loads(answer.body)
        for fault in body.values():
            fault.update(self._details)
        answer.body = json.dumps(body).encode()
        # Cinder names the version of its own API there.
        _stamp(answer.headers, self._version)
        return answer


def negotiated(action: _Action) -> _Action:
    """Decorate a controller's action: pass on only requests for a supported version.

    :raises Fault: 406 for an unsupported version, 400 for a malformed one
    """
    @functools.wraps(action)
    def wrapper(self: Any, req: wsgi.Request, **arguments: Any) -> wsgi.ResponseObject:
        version = VERSIONS[-1]
        try:
            with wsgi.ResourceExceptionHandler():
                version = str(_asked(req))
                answer = action(self, req, **arguments)
        except _Fault:
            raise
        except wsgi.Fault as exc:
            raise _Fault(exc.wrapped_exc, version, _details(exc)) from exc
        if not isinstance(answer, wsgi.ResponseObject):
            answer = wsgi.ResponseObject(answer)
        _stamp(answer, version)
        return answer
    return wrapper


def _asked(req: wsgi.Request) -> microversion_parse.Version:
    try:
        return microversion_parse.extract_version(req.headers, SERVICE_TYPE, VERSIONS)
    except TypeError:
        raise _unsupported('version-malformed', webob.exc.HTTPBadRequest(
            explanation=f'{_HEADER} has a malformed version of {SERVICE_TYPE}: use the form '
                        f'"{SERVICE_TYPE} {VERSIONS[0]}"')) from None
    except ValueError:
        raise _unsupported('version-unsupported', webob.exc.HTTPNotAcceptable(
            explanation=f'the requested version of {SERVICE_TYPE} is not supported: use one from '
                        f'{VERSIONS[0]} to {VERSIONS[-1]}')) from None


def _unsupported(code: str, error: webob.exc.HTTPException) -> _Fault:
    return _Fault(error, VERSIONS[-1], {'error_code': code, 'min_version': VERSIONS[0],
                                        'max_version': VERSIONS[-1]})


def _details(fault: wsgi.Fault) -> dict[str, str]:
    """Return what a program needs to know of the error that Cinder has made a fault of."""
    code = getattr(fault.__context__, 'error_code', None)
    if code is None and fault.status_int == HTTPStatus.CONFLICT:
        code = 'conflict'
    fields = {'error_code': code, 'state': getattr(fault.__context__, 'state', None)}
    return {name: value for name, value in fields.items() if value and code}


def _stamp(headers: MutableMapping[str, str], version: str) -> None:
    headers[_HEADER] = f'{SERVICE_TYPE} {version}'
    headers['Vary'] = _HEADER
