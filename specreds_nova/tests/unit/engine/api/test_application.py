# SPDX-License-Identifier: Apache-2.0
"""What holds for all requests, and what is around the application."""

import os
import pathlib
import runpy
from typing import Any
from unittest import mock

import ddt
import fixtures
from oslo_config import cfg
import webob

from specreds_nova.engine import exception
from specreds_nova.engine.api import deploy
from specreds_nova.engine.db import manage
from specreds_nova.tests.unit.engine.api import base

_PROTECTION = f'/v1/servers/{base.SERVER}/protection'


@ddt.ddt
class RequestsTest(base.APITest):

    def test_versions(self) -> None:
        for path in ('/', ''):
            (found,) = self.ask('GET', path, who={})['versions']
            self.assertEqual(('v1.0', 'CURRENT', '1.0', '1.0', 'http://localhost/v1'),
                             (found['id'], found['status'], found['min_version'],
                              found['version'], found['links'][0]['href']))
        self.assertEqual(found, self.ask('GET', '/v1/', who={})['version'])

    @ddt.data('speculative 1.0', 'speculative latest', 'compute 2.1',
              'compute 2.1, speculative 1.0')
    def test_version_that_there_is(self, version: str) -> None:
        request = webob.Request.blank('/v1', headers={'OpenStack-API-Version': version})
        response = request.get_response(self.app)
        self.assertEqual((200, 'speculative 1.0', 'OpenStack-API-Version'),
                         (response.status_int, response.headers['OpenStack-API-Version'],
                          response.headers['Vary']))

    @ddt.data('speculative 1.1', 'speculative 2.0', 'speculative one')
    def test_version_that_there_is_not(self, version: str) -> None:
        error = self.ask('GET', '/v1', headers={'OpenStack-API-Version': version}, status=406)
        self.assertIn('there are speculative 1.0 to 1.0', error['error']['message'])

    def test_nobody(self) -> None:
        self.refused('GET', '/v1/hosts', 401, who={})

    @ddt.data('/v2', '/v1/colours', '/v1/recoveries/x/y', '/v1//hosts', '/v1/hosts/node1/action/x')
    def test_no_such_path(self, path: str) -> None:
        self.assertIn('there is nothing at', self.refused('GET', path, 404))

    def test_no_such_method(self) -> None:
        request = webob.Request.blank('/v1/hosts', method='DELETE', headers=base.ADMIN)
        response = request.get_response(self.app)
        self.assertEqual((405, 'GET'), (response.status_int, response.headers['Allow']))

    def test_head(self) -> None:
        request = webob.Request.blank('/v1/hosts', method='HEAD', headers=base.ADMIN)
        self.assertEqual(200, request.get_response(self.app).status_int)

    @ddt.data('/v1/hosts?x=%ff', '/%ff')
    def test_no_utf8(self, path: str) -> None:
        self.assertIn(self.ask('GET', path, status=400)['error']['title'], 'Bad Request')

    def test_the_database_does_not_answer(self) -> None:
        with mock.patch.object(self.store, 'hosts',
                               side_effect=exception.Unreachable('secret.host: no')):
            words = self.refused('GET', '/v1/hosts', 503)
        self.assertIn('ask again later', words)
        self.assertNotIn('secret', words)

    def test_a_fault_of_ones_own(self) -> None:
        with mock.patch.object(self.store, 'hosts', side_effect=ValueError('secret')):
            words = self.refused('GET', '/v1/hosts', 500)
        self.assertNotIn('secret', words)


@ddt.ddt
class ProtectionTest(base.APITest):

    def test_for_admins(self) -> None:
        self.assertEqual(
            {'server_id': base.SERVER, 'project_id': 'p1', 'host': 'node1', 'protected': False,
             'reasons': ['the server is locked'],
             'volumes': {base.VOLUME: ['the volume is encrypted']},
             'destinations': ['node2', 'node3']}, self.ask('GET', _PROTECTION)['protection'])

    def test_for_its_project(self) -> None:
        found = self.ask('GET', _PROTECTION, who=base.READER)['protection']
        self.assertEqual({'server_id', 'project_id', 'protected', 'reasons', 'volumes'},
                         set(found))

    def test_projects_learn_of_no_hosts(self) -> None:
        asked = self.protection.check
        with mock.patch.object(self.protection, 'check', side_effect=lambda server_id: {
                **asked(server_id), 'reasons': [
                    'the server is locked', 'node2: too old', 'node3: too old']}):
            found = self.ask('GET', _PROTECTION, who=base.READER)['protection']
        self.assertEqual(['the server is locked', 'no host could run its backup'],
                         found['reasons'])

    def test_not_for_others(self) -> None:
        words = self.refused('GET', _PROTECTION, 404, who=base.STRANGER)
        self.assertEqual(f'there is no server {base.SERVER}', words)

    @ddt.data('vm1', base.VOLUME, '..')
    def test_no_such_server(self, server_id: str) -> None:
        self.assertEqual(f'there is no server {server_id}', self.refused(
            'GET', f'/v1/servers/{server_id}/protection', 404))

    def test_nova_does_not_answer(self) -> None:
        self.protection.error = exception.Unreachable('no')
        self.refused('GET', _PROTECTION, 503)


class AroundTest(base.APITest):

    def setUp(self) -> None:
        super().setUp()
        self.place = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.file = self.place / 'engine.conf'
        self.file.write_text(
            f'[database]\nconnection = sqlite:///{self.place}/engine.db\n'
            '[keystone_authtoken]\nwww_authenticate_uri = http://keystone.test\n'
            '[oslo_middleware]\nenable_proxy_headers_parsing = true\n')

    def got(self, app: Any, path: str, headers: dict[str, str] | None = None) -> webob.Response:
        """Ask an application."""
        return webob.Request.blank(path, headers=headers or {}).get_response(app)

    def check(self, app: Any) -> None:
        """Look at what is around an application."""
        self.assertEqual(200, self.got(app, '/healthcheck').status_int)
        found = self.got(app, '/', {'X-Forwarded-Proto': 'https',
                                    'X-Forwarded-Host': 'api.test'})
        self.assertEqual('https://api.test/v1', found.json['versions'][0]['links'][0]['href'])
        self.assertTrue(found.headers['x-openstack-request-id'].startswith('req-'))
        # Who says himself who he is, is nobody.
        refused = self.got(app, '/v1/hosts', base.ADMIN)
        self.assertEqual((401, 'Keystone uri="http://keystone.test"'),
                         (refused.status_int, refused.headers['WWW-Authenticate']))

    def test_pipeline(self) -> None:
        conf = cfg.ConfigOpts()
        conf(['--config-file', str(self.file)])
        self.check(deploy.load(conf, self.store, self.protection))

    def test_for_wsgi_servers(self) -> None:
        # That of the tests goes on.
        self.useFixture(fixtures.MockPatch('oslo_log.log.setup'))
        self.assertEqual(0, manage.main(['--config-file', str(self.file), 'db', 'sync']))
        with mock.patch.dict(os.environ, {'OS_SPECREDS_CONFIG_FILE': str(self.file)}):
            self.check(self.loaded())
        with mock.patch('sys.argv', ['uwsgi', '--config-file', str(self.file)]):
            self.check(self.loaded())

    def loaded(self) -> Any:
        """The application, as a process has it that has just started."""
        with mock.patch('oslo_config.cfg.CONF', cfg.ConfigOpts()):
            return runpy.run_module('specreds_nova.engine.api.wsgi')['application']
