# SPDX-License-Identifier: Apache-2.0
"""Clients of a host are fenced and released, without a superposition."""

import datetime
from typing import Any

from oslo_utils import fixture as utils_fixture

from specreds_cinder import exception
from specreds_cinder.tests.unit.api import base


class ReleaseTest(base.APITestCase):

    def release(self, **changes: Any) -> dict[str, Any]:
        """Return the body of a request."""
        return {'release': {'boots': [{'addresses': ['192.0.2.1'], 'age_seconds': 3600,
                                       **changes}]}}

    def test_time_of_a_boot_is_that_of_cinders_clock(self) -> None:
        self.service(base.HOST)
        self.rpc.release_booted.return_value = []
        self.useFixture(utils_fixture.TimeFixture(
            datetime.datetime(2026, 11, 24, 10, tzinfo=datetime.UTC)))
        self.done(200, 'POST', f'{base.BASE}/release', self.release())
        self.assertEqual([{'addresses': ['192.0.2.1'], 'booted_at': '2026-11-24T09:00:00+00:00'}],
                         self.rpc.release_booted.call_args.kwargs['boots'])

    def test_every_back_end_releases_clients(self) -> None:
        for host in (base.HOST, base.OTHER_HOST, 'compute@lvm'):
            self.service(host)
        self.rpc.release_booted.side_effect = [
            ['192.0.2.1:0/2'], exception.SuperpositionInvalid('no'), ['192.0.2.1:0/1']]
        answer = self.done(200, 'POST', f'{base.BASE}/release', self.release())
        self.assertEqual(['192.0.2.1:0/1', '192.0.2.1:0/2'], answer['release']['clients'])

    def test_silent_back_end_does_not_keep_others_from_releasing(self) -> None:
        self.service(base.HOST)
        self.service(base.OTHER_HOST)
        self.rpc.release_booted.side_effect = [exception.SuperpositionUnavailable('down'), []]
        self.refused(503, 'POST', f'{base.BASE}/release', self.release())
        self.assertEqual(2, self.rpc.release_booted.call_count)

    def test_only_admins_and_engines_may_release(self) -> None:
        for role in ('member', 'service'):
            self.refused(403, 'POST', f'{base.BASE}/release', self.release(),
                         ctxt=base.caller(role))

    def test_malformed_request_returns_400(self) -> None:
        malformed: list[dict[str, Any]] = [
            {'addresses': ['compute-1']}, {'addresses': ['1.2.3.4.5']}, {'age_seconds': -1},
            {'age_seconds': 0.5}, {'age_seconds': '3600'}, {'age_seconds': float('inf')},
            {'age_seconds': float('nan')}, {'age_seconds': 1 << 40},
            {'booted_at': '2026-11-24T09:00:00+00:00'}, {'more': 1}]
        for changes in malformed:
            self.refused(400, 'POST', f'{base.BASE}/release', self.release(**changes))
        self.rpc.release_booted.assert_not_called()


class FenceTest(base.APITestCase):

    def fence(self, step: str = 'close', **changes: Any) -> dict[str, Any]:
        """Return the body of a request."""
        return {'fence': {'fence_id': base.ID, 'host': 'compute-1', 'step': step,
                          'volume_ids': [base.VOLUME], **changes}}

    def setUp(self) -> None:
        super().setUp()
        self.volume()
        self.rpc.fence_host.return_value = [{'volume_id': base.VOLUME, 'clients': 1}]

    def test_all_back_ends_observe_before_one_fences(self) -> None:
        self.volume(base.SECOND, host=base.OTHER_HOST)
        self.rpc.fence_observe.side_effect = [None, exception.SuperpositionInvalid('no')]
        self.refused(400, 'POST', f'{base.BASE}/fence', self.fence(
            volume_ids=[base.VOLUME, base.SECOND]))
        self.assertEqual(2, self.rpc.fence_observe.call_count)
        self.rpc.fence_host.assert_not_called()

    def test_observation_fences_no_client(self) -> None:
        self.assertEqual({'fence_id': base.ID, 'host': 'compute-1', 'step': 'observe',
                          'volumes': None},
                         self.done(200, 'POST', f'{base.BASE}/fence',
                                   self.fence('observe'))['fence'])
        self.rpc.fence_host.assert_not_called()

    def test_only_admins_and_engines_may_fence(self) -> None:
        for role in ('member', 'service'):
            self.refused(403, 'POST', f'{base.BASE}/fence', self.fence(),
                         ctxt=base.caller(role))
        self.done(200, 'POST', f'{base.BASE}/fence', self.fence(),
                  ctxt=base.caller('specreds', base.OTHER_PROJECT))

    def test_malformed_request_returns_400(self) -> None:
        malformed: list[dict[str, Any]] = [{'host': ''}, {'volume_ids': []}, {'step': 'open'},
                                           {'more': 1}]
        for changes in malformed:
            self.refused(400, 'POST', f'{base.BASE}/fence', self.fence(**changes))
