# SPDX-License-Identifier: Apache-2.0
"""Puts the API together: what each request goes through, from the outside in."""

from collections.abc import Callable, Iterable
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
from specreds_nova.engine.api import conf as api_conf
from specreds_nova.engine.api import protection
from specreds_nova.engine.api import routes

WSGI = Callable[[dict[str, Any], Any], Iterable[bytes]]

_HEALTH = '/healthcheck'
_PUBLIC = frozenset(route.path.rstrip('/') for route in routes.ROUTES if route.public)


def load(conf: cfg.ConfigOpts, store: call.Store, protector: protection.Protection) -> WSGI:
    """Give the application with all that is around it."""
    found: WSGI = application.Application(services(conf, store, protector))
    found = _Doors(found, conf)
    found = request_id.RequestId(found, conf)
    return http_proxy_to_wsgi.HTTPProxyToWSGI(found, conf)


def services(conf: cfg.ConfigOpts, store: call.Store,
             protector: protection.Protection) -> call.Services:
    """Give what requests are answered with."""
    api_conf.register(conf)
    enforcer = policy.Enforcer(conf)
    enforcer.register_defaults(policies.list_rules())
    return call.Services(store, protector, enforcer, conf.api.max_limit)


class _Doors:
    """Lets Keystone look at who asks, except for what is for everybody."""

    def __init__(self, inner: WSGI, conf: cfg.ConfigOpts) -> None:
        self._guarded: WSGI = auth_token.AuthProtocol(inner, {'oslo_config_config': conf})
        # Whom it does not answer the application tells that there is nothing.
        self._open: dict[str, WSGI] = {_HEALTH: healthcheck.Healthcheck(inner, conf),
                                       **dict.fromkeys(_PUBLIC, inner)}

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ.get('PATH_INFO', '').rstrip('/')
        return self._open.get(path, self._guarded)(environ, start_response)
