# SPDX-License-Identifier: Apache-2.0
"""The WSGI application: it routes and checks requests, and answers in JSON."""

from collections.abc import Callable, Collection, Iterable
from http import HTTPStatus
import json
from typing import Any

from keystonemiddleware import auth_token
import microversion_parse
from oslo_config import cfg
from oslo_context import context
from oslo_middleware import healthcheck
from oslo_middleware import http_proxy_to_wsgi
from oslo_middleware import request_id
from oslo_policy import policy
import webob
import webob.dec

from specreds_nova.engine import policies
from specreds_nova.engine.api import call as api_call
from specreds_nova.engine.api import errors
from specreds_nova.engine.api import routes
from specreds_nova.engine.api import schemas
from specreds_nova.engine.placing import protection
from specreds_nova.engine.store import store as stores
from specreds_nova.preflight import coverage

_VERSION_HEADER = 'OpenStack-API-Version'
# Bytes; no request needs more.
_MAX_BODY = 65536
WSGI = Callable[[dict[str, Any], Any], Iterable[bytes]]
_HEALTH = '/healthcheck'
_PUBLIC = frozenset(route.path.rstrip('/') for route in routes.ROUTES if route.public)


class Application:
    """Answers requests whose tokens Keystone has checked.

    :param services: the services that handlers use
    """

    def __init__(self, services: api_call.Services) -> None:
        self._services = services

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        """Answer a request."""
        try:
            version = _version(request)
        except errors.Problem as exc:
            return errors.response(exc)
        try:
            answer = self._answer(request)
        except Exception as exc:
            answer = errors.response(errors.problem(exc))
        answer.headers[_VERSION_HEADER] = f'{api_call.SERVICE} {version}'
        answer.vary = (_VERSION_HEADER,)
        return answer

    def _answer(self, request: webob.Request) -> webob.Response:
        route, path = routes.find(request.method, request.path_info)
        caller = context.RequestContext.from_environ(
            request.environ, request_id=request.environ.get(request_id.ENV_REQUEST_ID))
        if caller.user_id is None and not route.public:
            raise errors.Problem(HTTPStatus.UNAUTHORIZED, 'this request needs a token of Keystone')
        query = request.GET.mixed()
        schemas.validate(route.query, query, 'query')
        body = None
        if route.body is not None:
            body = _body(request)
            schemas.validate(route.body, body, 'body')
        status, answer = route.handler(api_call.Call(
            request, caller, self._services, path, query, body))
        return webob.Response(status=int(status), json_body=answer,
                              content_type='application/json', charset=None)


def _version(request: webob.Request) -> microversion_parse.Version:
    """Return the version of the API that a request selects.

    :raises errors.Problem: the version is malformed or not supported
    """
    try:
        return microversion_parse.extract_version(
            request.headers, api_call.SERVICE, api_call.VERSIONS)
    except (TypeError, ValueError) as exc:
        raise errors.Problem(
            HTTPStatus.NOT_ACCEPTABLE,
            f'{exc}; supported versions are {api_call.SERVICE} '
            f'{api_call.VERSIONS[0]} to {api_call.VERSIONS[-1]}',
            details={'error_code': 'version-unsupported', 'min_version': api_call.VERSIONS[0],
                     'max_version': api_call.VERSIONS[-1]}) from exc


def _body(request: webob.Request) -> Any:
    """Return the body of a request.

    :raises errors.Problem: the body is too large, or is not JSON
    """
    raw = request.body_file.read(_MAX_BODY + 1)
    if len(raw) > _MAX_BODY:
        raise errors.Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                             f'the body has more than {_MAX_BODY} bytes')
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as exc:
        raise errors.Problem(
            HTTPStatus.BAD_REQUEST, f'the body is not JSON: {exc}') from exc


def load(conf: cfg.ConfigOpts, store: stores.Store, check: Callable[[str], protection.Answer],
         places: Callable[[], Collection[str]], known: Callable[[], coverage.Coverage]) -> WSGI:
    """Return the application with its middleware."""
    wsgi: WSGI = Application(services(conf, store, check, places, known))
    wsgi = _Authentication(wsgi, conf)
    wsgi = request_id.RequestId(wsgi, conf)
    return http_proxy_to_wsgi.HTTPProxyToWSGI(wsgi, conf)


def services(conf: cfg.ConfigOpts, store: stores.Store, check: Callable[[str], protection.Answer],
             places: Callable[[], Collection[str]], known: Callable[[], coverage.Coverage]
             ) -> api_call.Services:
    """Return the services that handlers use."""
    enforcer = policy.Enforcer(conf)
    enforcer.register_defaults(policies.list_rules())
    return api_call.Services(store, check, places, known, enforcer, api_call.LIMIT)


class _Authentication:
    """Has Keystone check the token of each request to a path that is not public."""

    def __init__(self, inner: WSGI, conf: cfg.ConfigOpts) -> None:
        self._authenticated: WSGI = auth_token.AuthProtocol(inner, {'oslo_config_config': conf})
        # The application answers other methods of these paths with an error.
        self._public: dict[str, WSGI] = {_HEALTH: healthcheck.Healthcheck(inner, conf),
                                       **dict.fromkeys(_PUBLIC, inner)}

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ.get('PATH_INFO', '').rstrip('/')
        return self._public.get(path, self._authenticated)(environ, start_response)
