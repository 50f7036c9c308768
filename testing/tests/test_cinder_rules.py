# SPDX-License-Identifier: Apache-2.0
"""Requests that Cinder's real controller refuses."""

from typing import Any
import uuid

import ddt
import testtools

from testing import cinder_rules

_ID = str(uuid.uuid4())
_BASE = '/os-superpositions'


@ddt.ddt
class RefusalTest(testtools.TestCase):

    @ddt.data(
        ('GET', f'{_BASE}?state=superposed'), ('GET', f'{_BASE}/detail?all_tenants=1'),
        ('GET', f'{_BASE}/{_ID}?sizes=0'), ('GET', f'{_BASE}/eligibility?volume_id={_ID}'),
        ('POST', _BASE, {'superposition': {'volume_ids': [_ID]}}),
        ('POST', f'{_BASE}/{_ID}/check'), ('DELETE', f'{_BASE}/{_ID}'),
        ('POST', f'{_BASE}/{_ID}/merge', {'merge': {'step': 'begin'}}))
    @ddt.unpack
    def test_request_in_order_is_accepted(self, method: str, url: str, body: Any = None) -> None:
        self.assertIsNone(cinder_rules.refusal(method, url, body))

    @ddt.data(
        ('400', 'GET', f'{_BASE}?colour=red'), ('400', 'GET', f'{_BASE}/{_ID}?sizes=few'),
        ('400', 'GET', f'{_BASE}/eligibility?volume_id=a'),
        ('400', 'POST', _BASE, {'superposition': {'volume_ids': ['a']}}),
        ('400', 'POST', f'{_BASE}/{_ID}/merge', {'merge': {'step': 'begun'}}),
        ('404', 'PUT', f'{_BASE}/{_ID}'), ('404', 'POST', f'{_BASE}/{_ID}/burn'),
        ('404', 'GET', f'{_BASE}/{_ID}/check'))
    @ddt.unpack
    def test_other_request_is_refused(self, status: str, method: str, url: str,
                                      body: Any = None) -> None:
        self.assertIn(status, str(cinder_rules.refusal(method, url, body)))

    def test_unsupported_version_is_refused(self) -> None:
        self.assertIn('406', str(cinder_rules.refusal('GET', _BASE, headers={
            'OpenStack-API-Version': 'superposition 99.0'})))
