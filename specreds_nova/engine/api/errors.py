# SPDX-License-Identifier: Apache-2.0
"""Errors as answers in JSON, with messages that say what to do."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from oslo_log import log as logging
import webob

from specreds_nova.engine import exception

LOG = logging.getLogger(__name__)


class Problem(Exception):
    """An error with which a request is answered.

    :ivar status: status of HTTP
    :ivar headers: further headers of the answer
    """

    def __init__(self, status: HTTPStatus, message: str,
                 headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})


def problem(error: Exception) -> Problem:
    """Return the problem with which an error is answered."""
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
            # The message may have internal addresses.
            LOG.warning('%s', error)
            return Problem(HTTPStatus.SERVICE_UNAVAILABLE,
                           'a service that this request needs does not answer: try again later',
                           {'Retry-After': '5'})
        case UnicodeDecodeError():
            return Problem(HTTPStatus.BAD_REQUEST, 'the URL is not UTF-8')
    LOG.exception('unexpected error', exc_info=error)
    return Problem(HTTPStatus.INTERNAL_SERVER_ERROR,
                   'internal error: the log of the service has the details under the id of this '
                   'request')


def body(status: HTTPStatus, message: str) -> dict[str, Any]:
    """Return the body of an answer with an error."""
    return {'error': {'code': int(status), 'title': status.phrase, 'message': message}}


def response(failure: Problem) -> webob.Response:
    """Return the answer for a problem."""
    return webob.Response(status=int(failure.status),
                          json_body=body(failure.status, str(failure)),
                          headerlist=[('Content-Type', 'application/json'),
                                      *failure.headers.items()])
