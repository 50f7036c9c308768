# SPDX-License-Identifier: Apache-2.0
"""HTTP connections for thousands of small requests.

Half of the processor time of a request with ``requests`` goes into what no service of an engine
needs: cookies, ``.netrc``, settings of the session that are merged with those of the request, and
a look at all variables of the environment for proxies.
"""

from collections.abc import Hashable
from typing import Any
from urllib import parse

import requests
from requests import adapters


class Session(requests.Session):
    """A session of ``requests`` that prepares requests with less work.

    Proxies and certificates that the environment names are read once for each service. A request
    has the headers of the session beside its own ones; other settings of the session count as in
    its base class when a request is sent. Cookies are not sent.

    :param connections: connections to a service that are kept
    """

    def __init__(self, connections: int) -> None:
        super().__init__()
        # By service and settings of a request: the settings with those of the environment.
        self._settings: dict[Hashable, Any] = {}
        for scheme in ('http://', 'https://'):
            self.mount(scheme, adapters.HTTPAdapter(
                pool_connections=connections, pool_maxsize=connections))

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        """Return a request in the form in which it is sent."""
        if request.auth or request.cookies or request.files:
            return super().prepare_request(request)
        prepared = requests.PreparedRequest()
        prepared.prepare_method((request.method or 'GET').upper())
        prepared.prepare_url(str(request.url), request.params)
        prepared.prepare_headers({**self.headers, **(request.headers or {})})
        prepared.prepare_cookies({})
        prepared.prepare_body(request.data, None, request.json)
        prepared.prepare_hooks(request.hooks)
        return prepared

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any,
                                   cert: Any) -> Any:
        """Return the settings of a request with those of the session and the environment."""
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
