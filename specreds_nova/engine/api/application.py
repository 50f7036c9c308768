# SPDX-License-Identifier: Apache-2.0
"""The WSGI application: finds who asks and what for, has it done, and answers in JSON."""

from http import HTTPStatus
import json
from typing import Any

import microversion_parse
from oslo_context import context
from oslo_middleware import request_id
import webob
import webob.dec

from specreds_nova.engine.api import call as api_call
from specreds_nova.engine.api import errors
from specreds_nova.engine.api import microversions
from specreds_nova.engine.api import routes
from specreds_nova.engine.api import schemas

_VERSION_HEADER = 'OpenStack-API-Version'
# No request needs more bytes.
_MAX_BODY = 65536


class Application:
    """Answers requests whose callers Keystone has looked at.

    :param services: what they are answered with
    """

    def __init__(self, services: api_call.Services) -> None:
        self._services = services

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        """Answer one."""
        try:
            version = _version(request)
        except errors.Problem as problem:
            return errors.response(problem)
        try:
            answer = self._answer(request)
        except Exception as error:
            answer = errors.response(errors.problem(error))
        answer.headers[_VERSION_HEADER] = f'{microversions.SERVICE} {version}'
        answer.vary = (_VERSION_HEADER,)
        return answer

    def _answer(self, request: webob.Request) -> webob.Response:
        route, path = routes.find(request.method, request.path_info)
        who = context.RequestContext.from_environ(
            request.environ, request_id=request.environ.get(request_id.ENV_REQUEST_ID))
        if who.user_id is None and not route.public:
            raise errors.Problem(HTTPStatus.UNAUTHORIZED, 'this takes a token of Keystone')
        query = request.GET.mixed()
        schemas.validate(route.query, query, 'query')
        body = None
        if route.body is not None:
            body = _body(request)
            schemas.validate(route.body, body, 'body')
        status, answer = route.handler(api_call.Call(
            request, who, self._services, path, query, body))
        return webob.Response(status=int(status), json_body=answer,
                              content_type='application/json', charset=None)


def _version(request: webob.Request) -> microversion_parse.Version:
    """Find the version of the API that a request wants.

    :raises errors.Problem: there is no such version
    """
    try:
        return microversion_parse.extract_version(
            request.headers, microversions.SERVICE, microversions.VERSIONS)
    except (TypeError, ValueError) as error:
        raise errors.Problem(
            HTTPStatus.NOT_ACCEPTABLE,
            f'{error}; there are {microversions.SERVICE} {microversions.VERSIONS[0]} to '
            f'{microversions.VERSIONS[-1]}') from error


def _body(request: webob.Request) -> Any:
    """Read the body of a request.

    :raises errors.Problem: it is too large, or no JSON
    """
    raw = request.body_file.read(_MAX_BODY + 1)
    if len(raw) > _MAX_BODY:
        raise errors.Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                             f'a body may have {_MAX_BODY} bytes')
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise errors.Problem(HTTPStatus.BAD_REQUEST, f'the body is no JSON: {error}') from error
