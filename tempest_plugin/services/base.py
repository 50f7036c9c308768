# SPDX-License-Identifier: Apache-2.0
"""What the clients share."""

from collections.abc import Mapping, Sequence
import json
from typing import Any
from urllib import parse

from tempest.lib.common import rest_client

_HEADER = 'OpenStack-API-Version'


class Client(rest_client.RestClient):
    """A client of one REST resource; all methods raise what :class:`RestClient` does."""

    # What is asked for in the header; an answer must be in that version.
    version = ''

    def get_headers(self, accept_type: str | None = None,
                    send_type: str | None = None) -> dict[str, str]:
        """Give the headers of a request."""
        headers: dict[str, str] = super().get_headers(accept_type, send_type)
        if self.version:
            headers[_HEADER] = self.version
        return headers

    def ask(self, method: str, path: str, *, expect: int | Sequence[int] = 200,
            body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        """Send a request.

        :param expect: the status, or those, that the answer must have
        :param body: what is sent as JSON
        :param query: of the URL; lists are repeated
        :return: the answer, a :class:`ResponseBody`
        """
        url = f'{path}?{parse.urlencode(query, doseq=True)}' if query else path
        sent = None if body is None else json.dumps(body)
        response, text = self.request(method, url, body=sent)
        self.expected_success([expect] if isinstance(expect, int) else list(expect),
                              response.status)
        return rest_client.ResponseBody(response, json.loads(text) if text else {})
