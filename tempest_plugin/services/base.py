# SPDX-License-Identifier: Apache-2.0
"""Base class of the clients."""

from collections.abc import Mapping, Sequence
import json
from typing import Any
from urllib import parse

from tempest.lib.common import api_version_utils
from tempest.lib.common import rest_client

_HEADER = 'OpenStack-API-Version'

# The version that requests have, by the name of their API: without one, the APIs take their own.
# See tempest_plugin.common.microversions.
MICROVERSIONS: dict[str, str | None] = {}


class Client(rest_client.RestClient):
    """A client of one REST resource; all methods raise the errors of :class:`RestClient`."""

    # Name of the API in the header of versions.
    api = ''

    def get_headers(self, accept_type: str | None = None,
                    send_type: str | None = None) -> dict[str, str]:
        """Return the headers of a request."""
        headers: dict[str, str] = super().get_headers(accept_type, send_type)
        if version := MICROVERSIONS.get(self.api):
            headers[_HEADER] = f'{self.api} {version}'
        return headers

    def ask(self, method: str, path: str, *, expect: int | Sequence[int] = 200,
            body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        """Send a request.

        :param expect: the permitted status, or several
        :param body: the body, sent as JSON
        :param query: the parameters of the URL; those with lists are repeated
        :return: the answer, a :class:`ResponseBody`
        :raises InvalidHTTPResponseHeader: the answer has another version
        """
        url = f'{path}?{parse.urlencode(query, doseq=True)}' if query else path
        sent = None if body is None else json.dumps(body)
        version = MICROVERSIONS.get(self.api)
        response, text = self.request(method, url, body=sent)
        if version and version != api_version_utils.LATEST_MICROVERSION:
            api_version_utils.assert_version_header_matches_request(
                _HEADER, f'{self.api} {version}', response)
        self.expected_success([expect] if isinstance(expect, int) else list(expect),
                              response.status)
        return rest_client.ResponseBody(response, json.loads(text) if text else {})
