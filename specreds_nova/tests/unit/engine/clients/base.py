# SPDX-License-Identifier: Apache-2.0
"""Fake REST services with prepared answers."""

from collections.abc import Callable, Mapping
import json
from typing import Any

from keystoneauth1 import exceptions
from oslo_config import cfg
import testtools

from specreds_nova.engine import conf as engine_conf


class Response:
    """An answer of a fake service."""

    def __init__(self, status: int, body: Any) -> None:
        self.status_code = status
        self.text = '' if body is None else json.dumps(body)
        self.content = self.text.encode()
        self.headers = {'Content-Type': 'application/json'}

    def json(self) -> Any:
        """Return the parsed body."""
        return json.loads(self.text)


Answer = tuple[int, Any] | Exception


class Session:
    """A fake session of keystoneauth with prepared answers.

    :ivar auth: plug-in of keystoneauth that authenticates; None without one
    :ivar calls: method, path and body of each request
    :ivar requests: all other arguments of each request
    """

    def __init__(self) -> None:
        self.auth: Any = None
        self.calls: list[tuple[str, str, Any]] = []
        self.requests: list[Mapping[str, Any]] = []
        self._answers: dict[tuple[str, str], list[Answer]] = {}

    def answer(self, method: str, path: str, *answers: Any, status: int = 200) -> None:
        """Prepare the answers to a request; the last one is repeated."""
        self._answers[method, path] = [
            answer if isinstance(answer, Exception) else (status, answer) for answer in answers]

    def fail(self, method: str, path: str, status: int, words: str = 'no') -> None:
        """Prepare an error as the answer to a request."""
        self.answer(method, path, {'fault': {'message': words}}, status=status)

    def request(self, url: str, method: str, **more: Any) -> Any:
        """Record a request, and return its prepared answer."""
        self.calls.append((method, url, more.get('json')))
        self.requests.append(more)
        prepared = self._answers.get((method, url))
        if prepared is None:
            raise AssertionError(f'no answer is prepared for {method} {url}')
        answer = prepared.pop(0) if len(prepared) > 1 else prepared[0]
        if isinstance(answer, Exception):
            raise answer
        response: Any = Response(*answer)
        if response.status_code >= 400:
            raise exceptions.from_response(response, method, url)
        return response


class ServiceTest(testtools.TestCase):
    """A test with fake services and a configuration."""

    def setUp(self) -> None:
        super().setUp()
        self.session: Any = Session()
        self.conf = cfg.ConfigOpts()
        engine_conf.register(self.conf)
        self.conf([], default_config_files=[])

    def raised(self, kind: type[Exception], call: Callable[..., Any], *arguments: Any) -> str:
        """Assert that a call raises an error, and return its message."""
        return str(self.assertRaises(kind, call, *arguments))
