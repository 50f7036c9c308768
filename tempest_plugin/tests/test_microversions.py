# SPDX-License-Identifier: Apache-2.0
"""Classes of tests are selected by the versions of the APIs that they need."""

from typing import Any
from unittest import mock

import ddt
from oslo_config import cfg
from tempest.lib import exceptions
from tempest.lib.services.volume import base_client
import tempest.test
import testtools

from tempest_plugin import plugin
from tempest_plugin.common import base as common
from tempest_plugin.common import microversions
from tempest_plugin.common import servers
from tempest_plugin.services import base


@ddt.ddt
class SelectionTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.conf = cfg.ConfigOpts()
        plugin.SpecredsPlugin().register_opts(self.conf)
        self.conf.register_opts([cfg.StrOpt('min_microversion'), cfg.StrOpt('max_microversion')],
                                group='volume')
        self.conf([])
        for patch in (mock.patch.object(microversions, 'CONF', self.conf),
                      mock.patch.object(tempest.test.BaseTestCase, 'skip_checks'),
                      mock.patch.object(tempest.test.BaseTestCase, 'resource_setup')):
            patch.start()
            self.addCleanup(patch.stop)

    def case(self, **versions: str | None) -> Any:
        """Return a class of tests that needs versions."""
        return type('Case', (microversions.MicroversionTest,), versions)

    def configure(self, group: str, **options: str) -> None:
        for name, value in options.items():
            self.conf.set_override(name, value, group=group)
            self.addCleanup(self.conf.clear_override, name, group=group)

    def test_all_tests_select_versions(self) -> None:
        for case in common.BaseTest, servers.ServersTest:
            self.assertTrue(issubclass(case, microversions.MicroversionTest))

    @ddt.data(('specreds', 'superposition_'), ('specreds', 'speculative_'), ('volume', 'volume_'))
    @ddt.unpack
    def test_class_is_skipped_if_the_cloud_is_too_old(self, group: str, prefix: str) -> None:
        option = prefix if group == 'specreds' else ''
        newer = self.case(**{f'{prefix}min_microversion': '3.5'})
        older = self.case(**{f'{prefix}min_microversion': '1.0',
                             f'{prefix}max_microversion': '3.2'})
        self.configure(group, **{f'{option}min_microversion': '3.3',
                                 f'{option}max_microversion': '3.5'})
        newer.skip_checks()
        error = self.assertRaises(testtools.TestCase.skipException, older.skip_checks)
        self.assertIn('out of the configuration range[3.3 - 3.5]', str(error))
        self.configure(group, **{f'{option}max_microversion': '3.4'})
        self.assertRaises(testtools.TestCase.skipException, newer.skip_checks)
        self.configure(group, **{f'{option}min_microversion': '3.6'})
        self.assertRaises(exceptions.InvalidAPIVersionRange, newer.skip_checks)

    def test_requests_have_the_lowest_version_of_the_class_and_the_configuration(self) -> None:
        case = self.case(superposition_min_microversion='1.3', volume_min_microversion='3.27')
        self.configure('specreds', superposition_min_microversion='1.1',
                       speculative_min_microversion='1.4')
        case.resource_setup()
        self.assertEqual({'superposition': '1.3', 'speculative': '1.4'}, base.MICROVERSIONS)
        self.assertEqual('3.27', base_client.VOLUME_MICROVERSION)
        case.resource_cleanup()
        self.assertEqual({None}, set(base.MICROVERSIONS.values()))
        self.assertIsNone(base_client.VOLUME_MICROVERSION)
