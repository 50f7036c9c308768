# SPDX-License-Identifier: Apache-2.0
import pathlib
import socket
import threading
import time
from unittest import mock
import urllib.error
import urllib.request

import fixtures
from nova.api.metadata import base
import testtools

from specreds_nova.host.box import metadata
from specreds_nova.host.box import responder


def _source() -> mock.Mock:
    """The data from which Nova's metadata service answers."""
    openstack = {
        '/openstack': ['2012-08-10', 'latest'],
        '/openstack/latest': ['meta_data.json', 'user_data', 'password'],
        '/openstack/2012-08-10': ['meta_data.json'],
        '/openstack/2012-08-10/meta_data.json': b'{"old": 1}',
        '/openstack/latest/meta_data.json': b'{"uuid": "x"}',
        '/openstack/latest/user_data': b'#!/bin/sh\n\xff',
        '/openstack/latest/password': lambda request, data: None,
        '/openstack/content/0000': b'injected'}
    source = mock.Mock(password='secret', content={'0000': 'injected'})
    source.lookup.side_effect = openstack.__getitem__
    source.get_mimetype.return_value = 'application/json'
    source.get_ec2_metadata.return_value = {
        'user-data': b'#!/bin/sh\n',
        'meta-data': {'hostname': 'web', 'security-groups': ['default', 'other'],
                      'public-keys': {'0': {'_name': '0=mine', 'openssh-key': 'ssh-rsa A'}}}}
    return source


class TestAnswers(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'metadata.json')
        self.source = _source()
        self.useFixture(fixtures.MockPatchObject(base, 'InstanceMetadata',
                                                 return_value=self.source))
        metadata.write(mock.sentinel.instance, self.path)
        self.answers = responder.load(self.path)

    def _body(self, path: str) -> bytes:
        return self.answers[responder.canonical(path)].body

    def test_answers_are_readable_by_their_owner_only(self) -> None:
        self.assertEqual(0o600, self.path.stat().st_mode & 0o777)

    def test_answers_for_openstack(self) -> None:
        self.assertEqual(b'2012-08-10\nlatest', self._body('/openstack/'))
        self.assertEqual(b'{"uuid": "x"}', self._body('/openstack/latest/meta_data.json'))
        self.assertEqual('application/json',
                         self.answers['/openstack/latest/meta_data.json'].kind)
        self.assertEqual(b'#!/bin/sh\n\xff', self._body('/openstack/latest/user_data'))
        self.assertEqual(b'secret', self._body('/openstack/latest/password'))
        self.assertEqual(b'injected', self._body('/openstack/content/0000'))

    def test_answers_for_ec2(self) -> None:
        self.assertTrue(self._body('/').startswith(b'1.0\n'))
        self.assertEqual(b'web', self._body('/latest/meta-data/hostname'))
        self.assertEqual(b'web', self._body('//2009-04-04/meta-data/hostname?x=1'))
        self.assertEqual(b'default\nother', self._body('/latest/meta-data/security-groups'))
        self.assertEqual(b'0=mine', self._body('/latest/meta-data/public-keys/'))
        self.assertEqual(b'ssh-rsa A',
                         self._body('/latest/meta-data/public-keys/0/openssh-key'))
        self.assertEqual(b'#!/bin/sh\n', self._body('/ec2/latest/user-data'))


class TestResponder(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(responder, 'ADDRESS', ('127.0.0.1', 0)))
        self.useFixture(fixtures.MockPatchObject(responder, '_CONNECTIONS', 2))
        self.useFixture(fixtures.MockPatchObject(responder.Handler, 'answers', {
            '/ec2/latest': responder.Answer('text/plain', b'meta-data/')}))
        server = responder.Server(responder.ADDRESS, responder.Handler)
        self.address = server.socket.getsockname()
        self.url = f'http://127.0.0.1:{self.address[1]}'
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

    def test_connections_are_limited(self) -> None:
        idle = [socket.create_connection(self.address, 10) for _ in range(2)]
        for _ in range(3):
            with socket.create_connection(self.address, 10) as refused:
                self.assertEqual(b'', refused.recv(1))
        for connection in idle:
            connection.close()
        self.assertTrue(any(self._answers() for _ in range(1000)))

    def _answers(self) -> bool:
        try:
            self.test_get_returns_the_answer()
        except OSError:
            # The threads of closed connections have not ended yet.
            time.sleep(0.01)
            return False
        return True

    def test_get_returns_the_answer(self) -> None:
        with urllib.request.urlopen(f'{self.url}/latest/', timeout=10) as answer:
            self.assertEqual((b'meta-data/', 'text/plain'),
                             (answer.read(), answer.headers['Content-Type']))

    def test_other_requests_are_refused(self) -> None:
        error = self.assertRaises(urllib.error.HTTPError, urllib.request.urlopen,
                                  f'{self.url}/latest/none', timeout=10)
        self.assertEqual(404, error.code)
        error = self.assertRaises(urllib.error.HTTPError, urllib.request.urlopen,
                                  f'{self.url}/latest/', data=b'x', timeout=10)
        self.assertEqual(501, error.code)
