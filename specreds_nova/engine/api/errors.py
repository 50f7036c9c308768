# SPDX-License-Identifier: Apache-2.0
"""Errors as answers in JSON, with messages that say what to do."""

from collections.abc import Mapping
from http import HTTPStatus

from oslo_log import log as logging
import webob

from specreds_nova.engine import exception

LOG = logging.getLogger(__name__)


class Problem(Exception):
    """An error with which a request is answered.

    :ivar status: status of HTTP
    :ivar headers: further headers of the answer
    :ivar details: further fields of the error, for programs
    """

    def __init__(self, status: HTTPStatus, message: str,
                 headers: Mapping[str, str] | None = None,
                 details: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.details = dict(details or {})


def conflict(code: str, message: str) -> Problem:
    """Return the problem of a request that the state of its object does not permit.

    :param code: the reason, for programs
    """
    return Problem(HTTPStatus.CONFLICT, message, details={'error_code': code})


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
            return conflict('refused', str(error))
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


def response(failure: Problem) -> webob.Response:
    """Return the answer for a problem."""
    error = {'code': int(failure.status), 'title': failure.status.phrase, 'message': str(failure),
             **failure.details}
    return webob.Response(
        status=int(failure.status), json_body={'error': error},
        headerlist=[('Content-Type', 'application/json'), *failure.headers.items()])
