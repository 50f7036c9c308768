# SPDX-License-Identifier: Apache-2.0
"""Base class of the tests of the API, over a store in memory."""

import json
from typing import Any
from unittest import mock

from oslo_config import cfg
import webob

from specreds_nova.engine import conf as engine_conf
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.api import application
from specreds_nova.engine.placing import protection as protections
from specreds_nova.engine.suspicion import conf as detection_conf
from specreds_nova.preflight import coverage
from specreds_nova.tests.unit.engine.store import base as db_base
from specreds_nova.tests.unit.preflight import cloud as clouds

ADMIN = {'X-User-Id': 'u1', 'X-Project-Id': 'admins', 'X-Roles': 'admin,member,reader'}
OPERATOR = {'X-User-Id': 'u2', 'X-Project-Id': 'services', 'X-Roles': 'specreds'}
SERVICE = {**OPERATOR, 'X-Roles': 'service'}
READER = {'X-User-Id': 'u3', 'X-Project-Id': 'p1', 'X-Roles': 'reader'}
STRANGER = {'X-User-Id': 'u4', 'X-Project-Id': 'p2', 'X-Roles': 'member,reader'}

ID = '5d0c7c1f-8a3e-4b42-9f3e-0d5b1c2f3e01'
SERVER = '9c1e6c6a-5a0f-4f0b-9a2e-0d5b1c2f3e04'
VOLUME = '0f9c2c7e-8a77-4e4b-b6d0-0a9a4b6c9d01'
WHY = ({'kind': 'silence', 'words': 'no heartbeat for 0.9 s', 'at': 999.5},)


class FakeProtection:
    """A check of protection that knows one server.

    :ivar error: the error to raise instead of an answer
    :ivar recovery: what the server would get, and why nothing better
    """

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.recovery: tuple[str, list[str]] = 'evacuated', ['the server is locked']

    def check(self, server_id: str) -> protections.Answer:
        """Return whether a server is protected."""
        if self.error is not None:
            raise self.error
        if server_id != SERVER:
            raise exception.NotFound('Nova says no')
        recovery, reasons = self.recovery
        return {'name': 'vm1', 'project': 'p1', 'host': 'node1', 'protected': not reasons,
                'recovery': recovery, 'rules': ['specreds:protect=true of aggregate gold'],
                'reasons': reasons,
                'volumes': {VOLUME: ['the volume is mirrored']},
                'destinations': ['node2', 'node3']}


class APITest(db_base.StoreTest):
    """A test that sends requests to the API."""

    def setUp(self) -> None:
        super().setUp()
        self.protection = FakeProtection()
        self.places: Any = lambda: {
            'availability zone z1', 'aggregate db', 'aggregate ssd'}
        self.cloud_now = clouds.Cloud(node1='abc', node2='', node3='')
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[])
        compute = mock.Mock(**{'places.return_value': ('availability zone nova',),
                               'service_at_hand.return_value': {
                                   'up': True, 'enabled': True, 'forced_down': False}})
        engine_conf.register(conf)
        known = coverage.Coverage(
            lambda: self.cloud_now.reader(), self.store,
            detection_conf.server_gates(conf.engine),
            protections.hosts(conf, self.store, compute), conf.engine.evacuate_after, pairs=True)
        self.app = application.Application(
            application.services(conf, self.store, lambda server: self.protection.check(server),
                            lambda: self.places(), lambda: known))

    def request(self, method: str, path: str, body: Any = None, *, caller: dict[str, str] = ADMIN,
            status: int = 200, headers: dict[str, str] | None = None) -> Any:
        """Send a request with a caller's headers, and return the body of the answer."""
        message = webob.Request.blank(
            path, method=method, headers={**caller, **(headers or {})},
            body=b'' if body is None else
            body if isinstance(body, bytes) else json.dumps(body).encode())
        response = message.get_response(self.app)
        self.assertEqual((status, 'application/json'),
                         (response.status_int, response.content_type), response.text)
        return response.json

    def refused(self, method: str, path: str, status: int, body: Any = None, *,
                caller: dict[str, str] = ADMIN, code: str | None = None) -> str:
        """Send a request that is refused, and return the message.

        :param code: the reason of a conflict, for programs
        """
        error = self.request(method, path, body, caller=caller, status=status)['error']
        self.assertEqual({'code', 'title', 'message'}, set(error) - {'error_code'})
        self.assertEqual((status, code), (error['code'], error.get('error_code')))
        return str(error['message'])

    def create_racing(self) -> model.Recovery:
        """Create a recovery that races, with some steps."""
        recovery: model.Recovery = self.created(
            id=ID, server=SERVER, why=WHY, priority=10, expected=2.5)
        recovery = self.store.change(recovery, state=model.RACING, destination='node2')
        self.clock.time = 1000.25
        attempt = self.begin_step(recovery, 'super')
        self.clock.time = 1000.375
        self.end_step(recovery, 'super', attempt, {'volumes': 2})
        self.begin_step(recovery, 'start')
        return recovery
