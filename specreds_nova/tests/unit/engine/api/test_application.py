# SPDX-License-Identifier: Apache-2.0
"""The application: versions, errors, protection, and its pipeline."""

import os
import pathlib
import runpy
import subprocess
import sys
from typing import Any
from unittest import mock

import ddt
import fixtures
from oslo_config import cfg
import webob

from specreds_nova.engine import exception
from specreds_nova.engine.api import application
from specreds_nova.engine.store import manage
from specreds_nova.tests.unit.engine.api import base

_PROTECTION = f'/v1/servers/{base.SERVER}/protection'


@ddt.ddt
class RequestsTest(base.APITest):

    def test_versions_are_listed_without_authentication(self) -> None:
        for path in ('/', ''):
            (version,) = self.request('GET', path, caller={})['versions']
            self.assertEqual(('v1.0', 'CURRENT', '1.0', '1.0', 'http://localhost/v1'),
                             (version['id'], version['status'], version['min_version'],
                              version['version'], version['links'][0]['href']))
        self.assertEqual(version, self.request('GET', '/v1/', caller={})['version'])

    @ddt.data('speculative 1.0', 'speculative latest', 'compute 2.1',
              'compute 2.1, speculative 1.0')
    def test_supported_version_is_accepted(self, version: str) -> None:
        request = webob.Request.blank('/v1', headers={'OpenStack-API-Version': version})
        response = request.get_response(self.app)
        self.assertEqual((200, 'speculative 1.0', 'OpenStack-API-Version'),
                         (response.status_int, response.headers['OpenStack-API-Version'],
                          response.headers['Vary']))

    @ddt.data('speculative 1.1', 'speculative 2.0', 'speculative one')
    def test_unsupported_version_returns_406(self, version: str) -> None:
        error = self.request('GET', '/v1', headers={'OpenStack-API-Version': version}, status=406)
        self.assertIn('supported versions are speculative 1.0 to 1.0', error['error']['message'])
        self.assertEqual(('version-unsupported', '1.0', '1.0'), tuple(
            error['error'][name] for name in ('error_code', 'min_version', 'max_version')))

    def test_request_without_identity_returns_401(self) -> None:
        self.refused('GET', '/v1/hosts', 401, caller={})

    @ddt.data('/v2', '/v1/colours', '/v1/recoveries/x/y', '/v1//hosts', '/v1/hosts/node1/action/x')
    def test_unknown_path_returns_404(self, path: str) -> None:
        self.assertIn('the API has no path', self.refused('GET', path, 404))

    def test_unknown_method_returns_405(self) -> None:
        request = webob.Request.blank('/v1/hosts', method='DELETE', headers=base.ADMIN)
        response = request.get_response(self.app)
        self.assertEqual((405, 'GET'), (response.status_int, response.headers['Allow']))

    def test_head_is_answered_like_get(self) -> None:
        request = webob.Request.blank('/v1/hosts', method='HEAD', headers=base.ADMIN)
        self.assertEqual(200, request.get_response(self.app).status_int)

    @ddt.data('/v1/hosts?x=%ff', '/%ff')
    def test_path_that_is_not_utf8_returns_400(self, path: str) -> None:
        self.assertIn(self.request('GET', path, status=400)['error']['title'], 'Bad Request')

    def test_unreachable_database_returns_503_without_its_address(self) -> None:
        with mock.patch.object(self.store, 'hosts',
                               side_effect=exception.Unreachable('secret.host: no')):
            words = self.refused('GET', '/v1/hosts', 503)
        self.assertIn('try again later', words)
        self.assertNotIn('secret', words)

    def test_unexpected_error_returns_500_without_details(self) -> None:
        with mock.patch.object(self.store, 'hosts', side_effect=ValueError('secret')):
            words = self.refused('GET', '/v1/hosts', 500)
        self.assertNotIn('secret', words)


@ddt.ddt
class ProtectionTest(base.APITest):

    def test_admin_sees_the_whole_protection(self) -> None:
        self.assertEqual(
            {'server_id': base.SERVER, 'project_id': 'p1', 'host': 'node1', 'protected': False,
             'recovery': 'evacuated',
             'reasons': ['the server is locked'],
             'volumes': {base.VOLUME: ['the volume is mirrored']},
             'destinations': ['node2', 'node3'],
             'rules': ['specreds:protect=true of aggregate gold']},
            self.request('GET', _PROTECTION)['protection'])

    def test_project_sees_no_host_and_destinations(self) -> None:
        shown = self.request('GET', _PROTECTION, caller=base.READER)['protection']
        self.assertEqual({'server_id', 'project_id', 'protected', 'recovery', 'reasons',
                          'volumes'},
                         set(shown))

    def test_reasons_for_a_project_name_no_hosts(self) -> None:
        real_check = self.protection.check
        with mock.patch.object(self.protection, 'check', side_effect=lambda server_id: {
                **real_check(server_id), 'reasons': [
                    'the server is locked', 'node2: too old', 'node3: too old']}):
            shown = self.request('GET', _PROTECTION, caller=base.READER)['protection']
        self.assertEqual(['the server is locked', 'no backup could be started at the moment'],
                         shown['reasons'])

    def test_other_project_gets_404(self) -> None:
        words = self.refused('GET', _PROTECTION, 404, caller=base.STRANGER)
        self.assertEqual(f'there is no server {base.SERVER}', words)

    @ddt.data('vm1', base.VOLUME, '..')
    def test_unknown_server_returns_404(self, server_id: str) -> None:
        self.assertEqual(f'there is no server {server_id}', self.refused(
            'GET', f'/v1/servers/{server_id}/protection', 404))

    def test_unreachable_nova_returns_503(self) -> None:
        self.protection.error = exception.Unreachable('no')
        self.refused('GET', _PROTECTION, 503)


class PipelineTest(base.APITest):

    def setUp(self) -> None:
        super().setUp()
        self.place = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.file = self.place / 'engine.conf'
        self.file.write_text(
            f'[database]\nconnection = sqlite:///{self.place}/engine.db\n'
            '[keystone_authtoken]\nwww_authenticate_uri = http://keystone.test\n'
            '[oslo_middleware]\nenable_proxy_headers_parsing = true\n')

    def get(self, app: Any, path: str, headers: dict[str, str] | None = None) -> webob.Response:
        """Return the response of an application."""
        return webob.Request.blank(path, headers=headers or {}).get_response(app)

    def check(self, app: Any) -> None:
        """Assert that an application has the whole pipeline."""
        self.assertEqual(200, self.get(app, '/healthcheck').status_int)
        response = self.get(app, '/', {'X-Forwarded-Proto': 'https',
                                       'X-Forwarded-Host': 'api.test'})
        self.assertEqual('https://api.test/v1', response.json['versions'][0]['links'][0]['href'])
        self.assertTrue(response.headers['x-openstack-request-id'].startswith('req-'))
        # Headers of identity that the caller has set are ignored.
        refused = self.get(app, '/v1/hosts', base.ADMIN)
        self.assertEqual((401, 'Keystone uri="http://keystone.test"'),
                         (refused.status_int, refused.headers['WWW-Authenticate']))

    def test_pipeline_of_the_engine_is_complete(self) -> None:
        conf = cfg.ConfigOpts()
        conf(['--config-file', str(self.file)])
        self.check(application.load(conf, self.store, self.protection.check, self.places,
                               mock.Mock()))

    def test_pipeline_for_wsgi_servers_is_complete(self) -> None:
        # The set-up of logging for the tests stays.
        self.useFixture(fixtures.MockPatch('oslo_log.log.setup'))
        self.assertEqual(0, manage.main(['--config-file', str(self.file), 'db', 'sync']))
        with mock.patch.dict(os.environ, {'OS_SPECREDS_CONFIG_FILE': str(self.file)}):
            self.check(self.loaded())
        with mock.patch('sys.argv', ['uwsgi', '--config-file', str(self.file)]):
            self.check(self.loaded())

    def test_protection_is_checked_without_nova_in_the_process(self) -> None:
        # The options of Nova and those of the API have a group and a name in common, and
        # oslo.messaging has its options of tracing in the global configuration only.
        done = subprocess.run(
            [sys.executable, '-c', 'import sys; from oslo_config import cfg; '
             'import specreds_nova.engine.api.wsgi; import specreds_nova.engine.clients.connect; '
             'assert "nova.conf" not in sys.modules; '
             'print(cfg.CONF.engine.evacuate_after, '
             # Until 2026.1, oslo.messaging has no tracing.
             'getattr(cfg.CONF, "oslo_messaging_tracing", None))'],
            env={**os.environ, 'OS_SPECREDS_CONFIG_FILE': str(self.file)}, capture_output=True,
            text=True)
        self.assertEqual(0, done.returncode, done.stderr)

    def loaded(self) -> Any:
        """Return the application as a new process loads it."""
        with mock.patch('oslo_config.cfg.CONF', cfg.ConfigOpts()):
            return runpy.run_module('specreds_nova.engine.api.wsgi')['application']
