# SPDX-License-Identifier: Apache-2.0
"""Requests that are prepared with less work than by ``requests``, and in the same form."""

from typing import Any
from unittest import mock

import ddt
import fixtures
import requests
from requests import utils
import testtools

from specreds_nova.engine.clients import connections

_URL = 'http://nova/servers'


@ddt.ddt
class PreparedTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        for name in ('http_proxy', 'HTTP_PROXY', 'no_proxy', 'NO_PROXY', 'all_proxy', 'ALL_PROXY',
                     'REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE'):
            self.useFixture(fixtures.EnvironmentVariable(name))
        self.session = connections.Session(3)

    @ddt.data(
        {}, {'params': {'limit': '1', 'volume_id': ['a', 'b']}}, {'json': {'evacuate': {}}},
        {'data': '{"key": "value"}', 'headers': {'X-Auth-Token': 'secret', 'Accept': 'text'}},
        {'headers': {'User-Agent': 'specreds'}, 'data': b''})
    def test_request_is_that_of_the_library(self, more: dict[str, Any]) -> None:
        request = requests.Request('post', f'{_URL}?a=b', **more)
        ours, theirs = (session.prepare_request(request)
                        for session in (self.session, requests.Session()))
        self.assertEqual((theirs.method, theirs.url, theirs.body), (ours.method, ours.url,
                                                                    ours.body))
        self.assertEqual(theirs.headers, ours.headers)

    @ddt.data('http://nova', 'https://nova:8774/v2.1/servers/0f-_~.a', 'http://10.0.0.1/a/../b',
              'http://nova/a//b', 'http://NOVA/a', 'http://nova/a b', 'http://nova/ü', 'http://ü/a',
              'http://nova/a/', 'http://[::1]:8774/a', 'http://nova/%7ea', 'http://nova/a?b=c d',
              'http://user:secret@nova/a', 'http://nova/a#b', 'http://nova/.a')
    def test_url_is_that_of_the_library(self, url: str) -> None:
        ours, theirs = (session.prepare_request(requests.Request('GET', url)).url
                        for session in (self.session, requests.Session()))
        self.assertEqual(theirs, ours)

    def test_credentials_of_a_request_are_sent(self) -> None:
        prepared = self.session.prepare_request(
            requests.Request('GET', _URL, auth=('user', 'secret')))
        self.assertIn('Basic', str(prepared.headers['Authorization']))

    def test_environment_is_read_once_for_each_service(self) -> None:
        self.useFixture(fixtures.EnvironmentVariable('http_proxy', 'http://proxy:3128'))
        self.useFixture(fixtures.EnvironmentVariable('no_proxy', 'cinder'))
        with mock.patch('requests.sessions.get_environ_proxies',
                        wraps=utils.get_environ_proxies) as read:
            answers = [self.session.merge_environment_settings(url, {}, None, None, None)
                       for url in (f'{_URL}/1', f'{_URL}/2', 'http://cinder/a', 'http://cinder/b')]
        self.assertEqual(2, read.call_count)
        self.assertEqual(['http://proxy:3128'] * 2 + [None] * 2,
                         [settings['proxies'].get('http') for settings in answers])

    def test_certificates_of_a_request_and_of_the_session_count(self) -> None:
        self.session.verify = '/etc/ca.pem'
        verified = [self.session.merge_environment_settings(
            'https://nova/', {}, None, verify, None)['verify']
            for verify in (None, '/etc/own.pem')]
        self.assertEqual(['/etc/ca.pem', '/etc/own.pem'], verified)

    def test_changed_settings_of_a_request_do_not_last(self) -> None:
        first = self.session.merge_environment_settings(_URL, {}, None, None, None)
        first['proxies']['http'] = 'http://other'
        again = self.session.merge_environment_settings(_URL, {}, None, None, None)
        self.assertNotIn('http', again['proxies'])


class PoolsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.session = connections.Session(3)

    def _pool(self, url: str, verify: Any = True, proxies: Any = None) -> Any:
        adapter: Any = self.session.get_adapter(url)
        return adapter.get_connection_with_tls_context(
            self.session.prepare_request(requests.Request('GET', url)), verify, proxies)

    def test_service_has_one_pool_for_equal_settings(self) -> None:
        pool = self._pool('https://nova/1')
        self.assertIs(pool, self._pool('https://nova/2'))
        others = [self._pool('https://nova:8774/1'), self._pool('http://nova/1'),
                  self._pool('https://nova/1', verify=False),
                  self._pool('https://nova/1', proxies={'https': 'http://proxy:3128'})]
        self.assertEqual(5, len({id(other) for other in (pool, *others)}))

    def test_closed_session_opens_connections_anew(self) -> None:
        pool = self._pool('http://nova/1')
        self.session.close()
        self.assertIsNot(pool, self._pool('http://nova/1'))
