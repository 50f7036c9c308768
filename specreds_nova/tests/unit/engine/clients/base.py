# SPDX-License-Identifier: Apache-2.0
"""Services that answer as they are told to."""

from collections.abc import Callable, Mapping
import json
from typing import Any

from keystoneauth1 import exceptions
from oslo_config import cfg
import testtools

from specreds_nova.engine import conf as engine_conf


class Response:
    """An answer."""

    def __init__(self, status: int, body: Any) -> None:
        self.status_code = status
        self.text = '' if body is None else json.dumps(body)
        self.headers = {'Content-Type': 'application/json'}

    def json(self) -> Any:
        """Give what it says."""
        return json.loads(self.text)


Answer = tuple[int, Any] | Exception


class Session:
    """What keystoneauth gives; every answer is told before.

    :ivar asked: method, path and body of the requests
    :ivar requests: all that was asked for with them
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.requests: list[Mapping[str, Any]] = []
        self._answers: dict[tuple[str, str], list[Answer]] = {}

    def answer(self, method: str, path: str, *answers: Any, status: int = 200) -> None:
        """Answer so; the last of several again and again."""
        self._answers[method, path] = [
            one if isinstance(one, Exception) else (status, one) for one in answers]

    def fail(self, method: str, path: str, status: int, words: str = 'no') -> None:
        """Answer with an error."""
        self.answer(method, path, {'fault': {'message': words}}, status=status)

    def request(self, url: str, method: str, **more: Any) -> Any:
        """Ask."""
        self.asked.append((method, url, more.get('json')))
        self.requests.append(more)
        known = self._answers.get((method, url))
        if known is None:
            raise AssertionError(f'nobody said how to answer {method} {url}')
        found = known.pop(0) if len(known) > 1 else known[0]
        if isinstance(found, Exception):
            raise found
        response: Any = Response(*found)
        if response.status_code >= 400:
            raise exceptions.from_response(response, method, url)
        return response


class ServiceTest(testtools.TestCase):
    """Has services, and a configuration."""

    def setUp(self) -> None:
        super().setUp()
        self.session: Any = Session()
        self.conf = cfg.ConfigOpts()
        engine_conf.register(self.conf)
        self.conf([], default_config_files=[])

    def raised(self, kind: type[Exception], call: Callable[..., Any], *arguments: Any) -> str:
        """Give what an error says."""
        return str(self.assertRaises(kind, call, *arguments))
