# SPDX-License-Identifier: Apache-2.0
"""What services tell systemd through a real notification socket."""

import pathlib
import socket
import threading
from typing import Any
from unittest import mock

import fixtures
import testtools

from specreds_nova import systemd
from specreds_nova.engine import main


class SystemdTest(testtools.TestCase):
    """A socket in the place of systemd's."""

    def setUp(self) -> None:
        super().setUp()
        path = str(pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'notify'))
        self.socket = self.listen(path)
        self.useFixture(fixtures.EnvironmentVariable('NOTIFY_SOCKET', path))

    def listen(self, address: str) -> socket.socket:
        notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(notified.close)
        notified.bind(address)
        notified.setblocking(False)
        return notified

    def received(self) -> list[str]:
        messages = []
        while True:
            try:
                messages.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return messages

    def test_each_report_is_received(self) -> None:
        systemd.ready()
        systemd.alive()
        systemd.troubled('thread a\nhas failed')
        systemd.stopping()
        self.assertEqual(['READY=1', 'WATCHDOG=1\nSTATUS=ok', 'STATUS=thread a has failed',
                          'STOPPING=1'], self.received())

    def test_abstract_address_is_reached(self) -> None:
        name = f'specreds-{id(self)}'
        self.socket = self.listen(f'\0{name}')
        self.useFixture(fixtures.EnvironmentVariable('NOTIFY_SOCKET', f'@{name}'))
        systemd.ready()
        self.assertEqual(['READY=1'], self.received())

    def test_absent_systemd_does_no_harm(self) -> None:
        self.useFixture(fixtures.EnvironmentVariable('NOTIFY_SOCKET', '/nonexistent/notify'))
        systemd.alive()
        self.useFixture(fixtures.EnvironmentVariable('NOTIFY_SOCKET'))
        systemd.alive()
        self.assertEqual([], self.received())

    def test_engine_is_alive_unless_a_restart_would_help(self) -> None:
        self.useFixture(fixtures.MonkeyPatch('specreds_nova.systemd.INTERVAL', 0.0))
        engine: Any = mock.Mock()
        ended: Any = mock.Mock(spec=threading.Event)
        ended.wait.side_effect = [False, False, False, True]
        engine.problems.side_effect = [[], ['the broker is lost'], ['thread a has failed']]
        engine.faults.side_effect = [[], [], ['thread a has failed']]
        main._watch(engine, ended)
        self.assertEqual(
            ['READY=1', 'WATCHDOG=1\nSTATUS=ok', 'WATCHDOG=1\nSTATUS=the broker is lost',
             'STATUS=thread a has failed', 'STOPPING=1'], self.received())
