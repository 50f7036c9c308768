# SPDX-License-Identifier: Apache-2.0
"""The API with its middleware, from the outside in."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from keystonemiddleware import auth_token
from oslo_config import cfg
from oslo_middleware import healthcheck
from oslo_middleware import http_proxy_to_wsgi
from oslo_middleware import request_id
from oslo_policy import policy

from specreds_nova.engine import policies
from specreds_nova.engine.api import application
from specreds_nova.engine.api import call
from specreds_nova.engine.api import protection
from specreds_nova.engine.api import routes
from specreds_nova.engine.store import store as stores
from specreds_nova.preflight import coverage

WSGI = Callable[[dict[str, Any], Any], Iterable[bytes]]

_HEALTH = '/healthcheck'
_PUBLIC = frozenset(route.path.rstrip('/') for route in routes.ROUTES if route.public)


def load(conf: cfg.ConfigOpts, store: stores.Store, check: protection.Check,
         places: Callable[[], Collection[str]], known: Callable[[], coverage.Coverage]) -> WSGI:
    """Return the application with its middleware."""
    wsgi: WSGI = application.Application(services(conf, store, check, places, known))
    wsgi = _Authentication(wsgi, conf)
    wsgi = request_id.RequestId(wsgi, conf)
    return http_proxy_to_wsgi.HTTPProxyToWSGI(wsgi, conf)


def services(conf: cfg.ConfigOpts, store: stores.Store, check: protection.Check,
             places: Callable[[], Collection[str]], known: Callable[[], coverage.Coverage]
             ) -> call.Services:
    """Return the services that handlers use."""
    enforcer = policy.Enforcer(conf)
    enforcer.register_defaults(policies.list_rules())
    return call.Services(store, check, places, known, enforcer, call.LIMIT)


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
