# SPDX-License-Identifier: Apache-2.0
"""Base class of the clients."""

from collections.abc import Mapping, Sequence
import json
from typing import Any
from urllib import parse

from tempest.lib.common import rest_client

_HEADER = 'OpenStack-API-Version'


class Client(rest_client.RestClient):
    """A client of one REST resource; all methods raise the errors of :class:`RestClient`."""

    # The version that requests ask for in the header.
    version = ''

    def get_headers(self, accept_type: str | None = None,
                    send_type: str | None = None) -> dict[str, str]:
        """Return the headers of a request."""
        headers: dict[str, str] = super().get_headers(accept_type, send_type)
        if self.version:
            headers[_HEADER] = self.version
        return headers

    def ask(self, method: str, path: str, *, expect: int | Sequence[int] = 200,
            body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        """Send a request.

        :param expect: the permitted status, or several
        :param body: the body, sent as JSON
        :param query: the parameters of the URL; those with lists are repeated
        :return: the answer, a :class:`ResponseBody`
        """
        url = f'{path}?{parse.urlencode(query, doseq=True)}' if query else path
        sent = None if body is None else json.dumps(body)
        response, text = self.request(method, url, body=sent)
        self.expected_success([expect] if isinstance(expect, int) else list(expect),
                              response.status)
        return rest_client.ResponseBody(response, json.loads(text) if text else {})
