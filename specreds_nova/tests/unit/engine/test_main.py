# SPDX-License-Identifier: Apache-2.0
"""The options of libraries in the process of an engine."""

from oslo_config import cfg
import testtools

from specreds_nova.engine import main


class DefaultsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.conf = cfg.ConfigOpts()
        self.conf.register_opts([])

    def test_connections_to_the_broker_are_few(self) -> None:
        main._set_defaults(self.conf)
        self.conf([], default_config_files=[])
        self.assertEqual(4, self.conf.oslo_messaging_rabbit.rpc_conn_pool_size)

    def test_operators_choose_the_number_of_connections(self) -> None:
        main._set_defaults(self.conf)
        self.conf([], default_config_files=[])
        self.conf.set_override('rpc_conn_pool_size', 9, 'oslo_messaging_rabbit')
        main._set_defaults(self.conf)
        self.assertEqual(9, self.conf.oslo_messaging_rabbit.rpc_conn_pool_size)
