# SPDX-License-Identifier: Apache-2.0
"""HTTP connections for thousands of small requests.

More than half of the processor time of a request with ``requests`` goes into what no service of an
engine needs: cookies, ``.netrc``, settings of the session that are merged with settings of the
request, a look at all variables of the environment for proxies, URLs that are taken apart and put
together again, and the same pool of connections that is looked for by all settings of TLS.
"""

from collections.abc import Hashable
import re
from typing import Any
from urllib import parse

import requests
from requests import adapters
from requests import cookies
from requests import utils

# URLs that are sent as they are: nothing in them has to be encoded or resolved.
_PLAIN = re.compile(r'https?://[a-z0-9][a-z0-9.-]*(?::\d+)?(?:/[A-Za-z0-9_-][A-Za-z0-9._~-]*)+')


class _Adapter(adapters.HTTPAdapter):
    """Keeps which pool of connections leads to each service."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._pools: dict[Hashable, Any] = {}

    def get_connection_with_tls_context(self, request: requests.PreparedRequest, verify: Any,
                                        proxies: Any = None, cert: Any = None) -> Any:
        """Return the pool of connections for a request."""
        place = parse.urlsplit(str(request.url))
        proxy = utils.select_proxy(str(request.url), proxies)
        key = place.scheme, place.netloc, proxy, verify, cert
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = super().get_connection_with_tls_context(
                request, verify, proxies, cert)
        return pool

    def close(self) -> None:
        """Close all connections."""
        self._pools.clear()
        super().close()


class Session(requests.Session):
    """A session of ``requests`` that prepares requests with less work.

    Proxies and certificates that the environment names are read once for each service. A request
    has the headers of the session beside its own ones; other settings of the session count as in
    its base class when a request is sent. Cookies are not sent.

    :param connections: connections to a service that are kept
    """

    def __init__(self, connections: int) -> None:
        super().__init__()
        self._no_cookies = cookies.RequestsCookieJar()
        # By service and settings of a request: the settings with the settings of the environment.
        self._settings: dict[Hashable, Any] = {}
        for scheme in ('http://', 'https://'):
            self.mount(scheme, _Adapter(
                pool_connections=connections, pool_maxsize=connections))

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        """Return a request in the form in which it is sent."""
        if request.auth or request.cookies or request.files:
            return super().prepare_request(request)
        prepared = requests.PreparedRequest()
        prepared.prepare_method((request.method or 'GET').upper())
        url = str(request.url)
        if not request.params and _PLAIN.fullmatch(url):
            prepared.url = url
        else:
            prepared.prepare_url(url, request.params)
        prepared.prepare_headers({**self.headers, **(request.headers or {})})
        prepared._cookies = self._no_cookies
        prepared.prepare_body(request.data, None, request.json)
        prepared.prepare_hooks(request.hooks)
        return prepared

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any,
                                   cert: Any) -> Any:
        """Return the settings of a request, of the session and of the environment."""
        if proxies:
            return super().merge_environment_settings(url, proxies, stream, verify, cert)
        place = parse.urlsplit(str(url))
        key = place.scheme, place.netloc, stream, verify, cert
        settings = self._settings.get(key)
        if settings is None:
            settings = self._settings[key] = super().merge_environment_settings(
                url, {}, stream, verify, cert)
        # The caller changes what is returned.
        return {**settings, 'proxies': dict(settings['proxies'])}
