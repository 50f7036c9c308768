# SPDX-License-Identifier: Apache-2.0
"""Hosts that are suspected and alive."""

from cloud.demo import recoveries
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.engine import base


class TestSuspicions(base.EngineTestCase):
    """The primary stays as long as its host reaches Ceph."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot()
        self.name = self.guest_name(self.server)

    def test_primary_that_writes_stays(self) -> None:
        self.heartbeat(self.server, 0.1)
        self.host(cloud_base.PRIMARY).cut(control=True)
        self.ended(self.server, recoveries.PRIMARY)
        self.host(cloud_base.PRIMARY).heal()
        self.trusted()
        self.assertUnnoticed(self.server, self.name)

    def test_idle_primary_without_heartbeats_stays(self) -> None:
        # The primary does not write, but the sentinel of its host answers.
        self.host(cloud_base.PRIMARY).cut(control=True)
        recovery = self.ended(self.server, recoveries.PRIMARY)
        self.assertIn(f'the sentinel of {cloud_base.PRIMARY} reports that it runs',
                      [step.why for step in recovery.steps])
        self.host(cloud_base.PRIMARY).heal()
        self.trusted()
        self.assertUnnoticed(self.server, self.name)

    def test_suspicion_by_an_operator_goes_unnoticed(self) -> None:
        self.openstack('host', 'suspect', cloud_base.PRIMARY, '--reason', 'a drill')
        recovery = self.ended(self.server, recoveries.PRIMARY)
        self.openstack('host', 'clear', cloud_base.PRIMARY)
        self.trusted()
        self.assertUnnoticed(self.server, self.name)
        [listed] = self.openstack('recovery', 'list', '--server', self.server.id)
        self.assertIn(recovery.id, listed.values())

    def test_hung_host_that_resumes_keeps_its_server(self) -> None:
        self.heartbeat(self.server, 0.1)
        host = self.host(cloud_base.PRIMARY)
        host.hang()
        self.begun(self.server)
        host.resume()
        self.ended(self.server, recoveries.PRIMARY)
        self.trusted()
        self.assertUnnoticed(self.server, self.name)
