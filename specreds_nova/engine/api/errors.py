# SPDX-License-Identifier: Apache-2.0
"""How errors are answered: all of them as JSON, in words that say what to do."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from oslo_log import log as logging
import webob

from specreds_nova.engine import exception

LOG = logging.getLogger(__name__)


class Problem(Exception):
    """Something that is answered with an error.

    :ivar status: of HTTP
    :ivar headers: that the answer has, too
    """

    def __init__(self, status: HTTPStatus, message: str,
                 headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})


def problem(error: Exception) -> Problem:
    """Say how an error is answered."""
    match error:
        case Problem():
            return error
        case exception.NotFound():
            return Problem(HTTPStatus.NOT_FOUND, str(error))
        case exception.Invalid():
            return Problem(HTTPStatus.BAD_REQUEST, str(error))
        case exception.Refused():
            return Problem(HTTPStatus.CONFLICT, str(error))
        case exception.Unreachable():
            # Whose address it has is nobody's business.
            LOG.warning('%s', error)
            return Problem(HTTPStatus.SERVICE_UNAVAILABLE,
                           'a service that this needs does not answer: nothing is known; ask '
                           'again later', {'Retry-After': '5'})
        case UnicodeDecodeError():
            return Problem(HTTPStatus.BAD_REQUEST, 'the address is no UTF-8')
    LOG.exception('unexpected error', exc_info=error)
    return Problem(HTTPStatus.INTERNAL_SERVER_ERROR,
                   'this is a fault of the service, whose log says more under the id of this '
                   'request')


def body(status: HTTPStatus, message: str) -> dict[str, Any]:
    """Give what an error is answered with."""
    return {'error': {'code': int(status), 'title': status.phrase, 'message': message}}


def response(found: Problem) -> webob.Response:
    """Answer with an error."""
    return webob.Response(status=int(found.status), json_body=body(found.status, str(found)),
                          headerlist=[('Content-Type', 'application/json'),
                                      *found.headers.items()])
