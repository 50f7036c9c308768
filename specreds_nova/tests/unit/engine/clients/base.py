# SPDX-License-Identifier: Apache-2.0
"""Fake REST services with prepared answers."""

from collections.abc import Callable, Mapping
import json
from typing import Any
from urllib import parse

from oslo_config import cfg
import testtools

from specreds_nova.engine import conf as engine_conf
from specreds_nova.engine.clients import rest

Answer = tuple[int, Any] | Exception


class Session:
    """A fake session with prepared answers.

    :ivar calls: method, path and body of each request
    :ivar requests: query, version and time limit of each request
    """

    def __init__(self) -> None:
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

    def request(self, kind: str, method: str, path: str, *, headers: Mapping[str, str],
                body: bytes | None = None, timeout: float | None = None) -> rest.Answer:
        """Record a request, and return its prepared answer."""
        path, _, query = path.partition('?')
        self.calls.append((method, path, None if body is None else json.loads(body)))
        self.requests.append({
            'kind': kind, 'version': headers['OpenStack-API-Version'], 'timeout': timeout,
            'params': {name: values[0] if len(values) == 1 else values
                       for name, values in parse.parse_qs(query).items()}})
        prepared = self._answers.get((method, path))
        if prepared is None:
            raise AssertionError(f'no answer is prepared for {method} {path}')
        answer = prepared.pop(0) if len(prepared) > 1 else prepared[0]
        if isinstance(answer, Exception):
            raise answer
        status, content = answer
        return rest.Answer(status, b'' if content is None else json.dumps(content).encode())


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
