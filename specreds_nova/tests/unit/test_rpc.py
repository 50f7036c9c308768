# SPDX-License-Identifier: Apache-2.0
"""Calls and answers over a fake message bus."""

import inspect
import threading
from typing import Any
from unittest import mock

from oslo_config import cfg
import oslo_messaging as messaging
from oslo_messaging import conffixture

from specreds_nova import exception
from specreds_nova import rpcapi
from specreds_nova.host.backup import endpoint
from specreds_nova.tests.unit.host import base

# By method: the arguments that the host gets if the caller leaves them out.
_DEFAULTS: dict[str, dict[str, Any]] = {'promote': {'keep_claim': False}}


class RpcTest(base.TestCase):
    """A client and the server of a host."""

    def setUp(self) -> None:
        super().setUp()
        conf = cfg.ConfigOpts()
        fixture = self.useFixture(conffixture.ConfFixture(conf))
        fixture.transport_url = 'fake:/'
        transport = messaging.get_rpc_transport(
            conf, allowed_remote_exmods=rpcapi.ALLOWED_EXMODS)
        self.served = mock.Mock()
        self.returning = mock.Mock()
        server = messaging.get_rpc_server(
            transport, messaging.Target(exchange='nova', topic='compute', server=base.HOST),
            [endpoint.Endpoint(self.served, self.returning.clean)], executor='threading')
        server.start()
        self.addCleanup(server.wait)
        self.addCleanup(server.stop)
        self.api = rpcapi.BackupsAPI(transport, timeout=10)

    def test_each_method_is_called_on_the_host(self) -> None:
        ids = {'backup_id': base.BACKUP_ID, 'instance_uuid': base.SERVER,
               'superposition_id': base.SUPERPOSITION}
        methods = [name for name, member in vars(rpcapi.BackupsAPI).items()
                   if inspect.isfunction(member) and not name.startswith('_')
                   and name not in ('returned', 'begin', 'boot')]
        self.assertEqual(7, len(methods))
        for name in methods:
            getattr(self.served, name).return_value = {}
            method = getattr(self.api, name)
            wanted = [ids[parameter] for parameter in inspect.signature(method).parameters
                      if parameter in ids]
            method({}, base.HOST, *wanted)
            getattr(self.served, name).assert_called_once_with(**_DEFAULTS.get(name, {}), **{
                parameter: ids[parameter] for parameter in inspect.signature(method).parameters
                if parameter in ids})

    def test_begun_backup_is_started_by_the_host(self) -> None:
        started = threading.Event()

        def start(**_ids: str) -> dict[str, str]:
            started.set()
            return {}
        self.served.start.side_effect = start
        self.api.begin({}, base.HOST, base.BACKUP_ID, base.SERVER, base.SUPERPOSITION)
        self.assertTrue(started.wait(20.0))
        self.served.start.assert_called_with(
            backup_id=base.BACKUP_ID, instance_uuid=base.SERVER,
            superposition_id=base.SUPERPOSITION)

    def test_promote_passes_keep_claim_on(self) -> None:
        self.served.promote.return_value = {}
        self.api.promote({}, base.HOST, base.BACKUP_ID, keep_claim=True)
        self.served.promote.assert_called_once_with(
            backup_id=base.BACKUP_ID, keep_claim=True)

    def test_returned_host_cleans_up(self) -> None:
        self.returning.clean.return_value = {'clean': False, 'left': [base.SERVER]}
        self.assertEqual({'clean': False, 'left': [base.SERVER]},
                         self.api.returned({}, base.HOST))

    def test_host_reports_its_boot(self) -> None:
        report = {'kernel': 'k', 'uptime': 1.0, 'addresses': ['192.0.2.1']}
        with mock.patch('specreds_nova.beats.boot.report', return_value=report):
            self.assertEqual(report, self.api.boot({}, base.HOST))

    def test_errors_are_raised_by_the_client(self) -> None:
        for kind in (exception.BackupConflict, exception.BackupNotFound,
                     exception.SuperpositionUnknown):
            self.served.promote.side_effect = kind('what, and what to do')
            error: Any = self.assertRaises(kind, self.api.promote, {}, base.HOST, base.BACKUP_ID)
            self.assertIn('what, and what to do', str(error))

    def test_malformed_id_is_refused(self) -> None:
        for wrong in ('../../etc/passwd', '', base.BACKUP_ID.upper(), None):
            self.assertRaises(exception.BadRequest, self.api.start, {}, base.HOST, wrong,
                              base.SERVER, base.SUPERPOSITION)
        self.served.start.assert_not_called()

    def test_calls_run_concurrently(self) -> None:
        entered, free = threading.Event(), threading.Event()
        self.addCleanup(free.set)

        def slow(**ids: str) -> dict[str, Any]:
            entered.set()
            free.wait(10)
            return {}

        self.served.start.side_effect = slow
        self.served.status.return_value = {}
        starting = threading.Thread(target=self.api.start, args=(
            {}, base.HOST, base.BACKUP_ID, base.SERVER, base.SUPERPOSITION))
        starting.start()
        self.assertTrue(entered.wait(10))
        self.assertEqual({}, self.api.status({}, base.HOST, base.BACKUP_ID))
        free.set()
        starting.join()
