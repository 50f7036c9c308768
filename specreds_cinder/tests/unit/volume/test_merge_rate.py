# SPDX-License-Identifier: Apache-2.0
"""The rate that the merges of a back end and of its Ceph cluster share."""

from unittest import mock

from oslo_config import cfg
from oslo_config import fixture as config_fixture

from specreds_cinder import driver as drivers
from specreds_cinder import exception
from specreds_cinder.tests.unit.volume import base
from specreds_cinder.volume import bandwidth


class RateTest(base.ServiceTestCase):
    """A back end of which all merges together may write 16 MiB/s."""

    def setUp(self) -> None:
        self.useFixture(config_fixture.Config(cfg.CONF)).config(
            group='specreds', merge_cluster_bytes_per_second=16 << 20)
        super().setUp()
        for number in range(4):
            self.create(self.back.add_volume(base.HOST), self.back.add_volume(base.HOST),
                        superposition_id=f's{number}')
            self.worker.records[f's{number}']['state'] = 'promoted'

    def rate(self, superposition: str = 's0') -> int | None:
        rate: int | None = self.service.get(self.context, superposition)['merge_bytes_per_second']
        return rate

    def begin(self, superposition: str, step: str = 'begin') -> None:
        self.service.merge(self.context, superposition, step)
        self.worker.records[superposition]['state'] = (
            'merging' if step == 'begin' else 'merged')

    def test_merges_that_have_begun_share_the_rate_with_the_next_one(self) -> None:
        self.assertEqual(8 << 20, self.rate())
        self.begin('s0')
        self.assertEqual(8 << 20, self.rate())
        self.begin('s1')
        self.assertEqual([4 << 20] * 2, [self.rate(name) for name in ('s0', 's1')])
        self.begin('s2')
        self.begin('s3')
        self.assertEqual(2 << 20, self.rate())

    def test_merge_that_has_ended_leaves_its_share(self) -> None:
        self.begin('s0')
        self.begin('s1')
        self.begin('s1', 'end')
        self.assertEqual((8 << 20, None), (self.rate('s0'), self.rate('s1')))

    def test_merges_of_other_services_are_found_by_each_pass(self) -> None:
        for name in ('s1', 's2', 's3'):
            self.worker.records[name].update(state='merging')
        self.worker.fail['unused'] = exception.SuperpositionConflict('an overlay is open')
        self.assertEqual(8 << 20, self.rate())
        self.service.look_after()
        self.merged()
        self.assertEqual(2 << 20, self.rate())

    def test_merge_of_the_service_has_what_hosts_leave(self) -> None:
        for name in ('s1', 's2', 's3'):
            self.begin(name)
        rates = []
        self.worker.hooks['merge'] = lambda: rates.append(
            (self.worker.calls[-1][1]['rate'], self.rate('s1')))
        self.service.merge(self.context, 's0', 'offline')
        self.merged()
        self.assertEqual([(2 << 20, 2 << 20)], rates)

    def test_rate_without_a_limit_is_any(self) -> None:
        self.service.backend.bandwidth = bandwidth.MergeBandwidth(0)
        self.assertEqual(0, self.rate())

    def test_merge_of_the_service_has_its_own_limit(self) -> None:
        self.service.backend.bandwidth = bandwidth.MergeBandwidth(0)
        self.service.merge(self.context, 's0', 'offline')
        self.merged()
        [arguments] = [arguments for method, arguments in self.worker.calls if method == 'merge']
        self.assertEqual(8 << 20, arguments['rate'])


class ClusterRateTest(base.ServiceTestCase):
    """Two back ends in one Ceph cluster, in which all merges together may write 16 MiB/s."""

    hosts = (base.HOST, 'node@rbd2')

    def setUp(self) -> None:
        self.useFixture(config_fixture.Config(cfg.CONF)).config(
            group='specreds', merge_cluster_bytes_per_second=16 << 20)
        super().setUp()
        self.other = self.back.services[self.hosts[1]]
        for number, host in enumerate((self.hosts[0], *self.hosts[1:] * 3)):
            self.back.services[host].create(
                self.context, f's{number}', [self.back.add_volume(host)], 'server', 'why')
            self.back.workers[host].records[f's{number}']['state'] = 'promoted'
            self.back.services[host].merge(self.context, f's{number}', 'begin')
            self.back.workers[host].records[f's{number}']['state'] = 'merging'

    def rate(self) -> int:
        """Count the merges of the other back end, and return the rate of a disk of the first."""
        self.service.count_others()
        rate: int = self.service.get(self.context, 's0')['merge_bytes_per_second']
        return rate

    def test_back_ends_of_one_cluster_share_the_rate(self) -> None:
        self.assertEqual(4 << 20, self.rate())
        self.other.count_others()
        self.assertEqual(4 << 20, self.other.get(self.context, 's1')['merge_bytes_per_second'])

    def test_merge_that_has_ended_elsewhere_leaves_its_share(self) -> None:
        self.assertEqual(4 << 20, self.rate())
        for name in ('s1', 's2'):
            self.other.merge(self.context, name, 'end')
        self.assertEqual(8 << 20, self.rate())

    def test_back_end_of_another_cluster_has_its_own_rate(self) -> None:
        self.back.drivers[self.hosts[1]].location = drivers.Location(
            'another fsid', 'cinder', self.hosts[1])
        self.assertEqual(16 << 20, self.rate())

    def test_merges_of_a_pool_of_two_back_ends_count_once(self) -> None:
        self.back.drivers[self.hosts[1]].location = self.back.drivers[self.hosts[0]].location
        self.assertEqual(16 << 20, self.rate())

    def test_other_back_ends_of_one_pool_count_once(self) -> None:
        self.service.backend.bandwidth.replace_others({'a': ('pool', 3), 'b': ('pool', 3)})
        self.assertEqual(4 << 20, self.service.get(self.context, 's0')['merge_bytes_per_second'])

    def test_back_end_that_does_not_answer_counts_as_before(self) -> None:
        self.back.away.add(self.hosts[1])
        self.assertEqual(16 << 20, self.rate())
        self.back.away.clear()
        self.assertEqual(4 << 20, self.rate())
        self.back.away.add(self.hosts[1])
        self.assertEqual(4 << 20, self.rate())

    def test_back_end_of_an_older_release_does_not_count(self) -> None:
        with mock.patch.object(self.back, 'call',
                               side_effect=exception.SuperpositionInvalid('no extension')):
            self.assertEqual(16 << 20, self.rate())

    def test_back_end_of_server_disks_is_asked_without_notes(self) -> None:
        self.back.notes.clear()
        self.assertEqual(16 << 20, self.rate())
        self.conf.config(group='specreds', server_disks_backend=self.hosts[1])
        self.assertEqual(4 << 20, self.rate())

    def test_others_are_only_asked_during_a_merge_that_has_a_limit(self) -> None:
        self.assertEqual(4 << 20, self.rate())
        self.service.merge(self.context, 's0', 'end')
        self.worker.records['s0']['state'] = 'merged'
        self.back.away.add(self.hosts[1])
        self.service.count_others()
        self.assertEqual({}, self.service.backend.bandwidth.others)
