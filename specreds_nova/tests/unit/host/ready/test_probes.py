# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import time
from typing import Any
from unittest import mock

import fixtures
import libvirt
import libvirt_qemu
import nova.privsep
import testtools

from specreds_nova.host.ready import conditions
from specreds_nova.host.ready import probes


def _of(kind: conditions.Kind, argument: str = '', guest: Any = None, box: Any = None
        ) -> probes.Probe:
    return probes.of(conditions.Condition(kind, argument, 1.0), guest or mock.MagicMock(), box,
                     'backup-1')


class TestAgent(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.asked: list[Any] = []
        self.answers: list[Any] = []
        self.useFixture(fixtures.MockPatchObject(libvirt_qemu, 'qemuAgentCommand', self._ask))

    def _ask(self, domain: Any, command: str, timeout: int, flags: int) -> str:
        self.asked.append(json.loads(command))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return json.dumps({'return': answer})

    def test_agent_that_answers_is_ready(self) -> None:
        self.answers = [libvirt.libvirtError('not connected'), {}]
        probe = _of(conditions.Kind.AGENT)
        self.assertIsNone(probe.look())
        self.assertIn('answers', str(probe.look()))
        self.assertEqual({'execute': 'guest-ping'}, self.asked[-1])

    def test_command_is_repeated_until_it_succeeds(self) -> None:
        self.answers = [{'pid': 7}, {'exited': False}, {'exited': True, 'exitcode': 2},
                        {'pid': 8}, {'exited': True, 'exitcode': 0}]
        probe = _of(conditions.Kind.AGENT, '/bin/check -q "a b"')
        seen = [probe.look() for _ in range(3)]
        self.assertEqual([None, None], seen[:2])
        self.assertEqual('/bin/check ended with 0', seen[2])
        self.assertEqual({'path': '/bin/check', 'arg': ['-q', 'a b'], 'capture-output': False},
                         self.asked[0]['arguments'])

    def test_command_ended_by_a_signal_is_not_ready(self) -> None:
        self.answers = [{'pid': 7}, {'exited': True, 'signal': 9}]
        self.assertIsNone(_of(conditions.Kind.AGENT, '/bin/check').look())

    def test_long_answer_is_not_read(self) -> None:
        self.answers = ['x' * 70_000]
        error = self.assertRaises(ValueError, _of(conditions.Kind.AGENT).look)
        self.assertIn('70014 characters', str(error))


class TestLine(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.guest = mock.MagicMock()
        self.stream = self.guest._domain.connect.return_value.newStream.return_value

    def test_line_in_pieces_is_read(self) -> None:
        self.stream.recv.side_effect = [-2, b'G1-RE', b'ADY x\nmore']
        probe = _of(conditions.Kind.LINE, 'port', self.guest)
        self.assertEqual([None, None, "the guest wrote 'G1-READY x'"],
                         [probe.look() for _ in range(3)])
        self.guest._domain.openChannel.assert_called_once_with('port', self.stream, 0)
        probe.close()
        self.stream.abort.assert_called_once_with()

    def test_closed_port_is_opened_again(self) -> None:
        self.stream.recv.side_effect = [libvirt.libvirtError('broken'), b'', b'x\n']
        probe = _of(conditions.Kind.LINE, 'port', self.guest)
        self.assertEqual([None, None, "the guest wrote 'x'"], [probe.look() for _ in range(3)])
        self.assertEqual(3, self.guest._domain.openChannel.call_count)


class TestConsole(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        nova.privsep.sys_admin_pctxt.set_client_mode(False)
        self.addCleanup(nova.privsep.sys_admin_pctxt.set_client_mode, True)
        self.log = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'console.log')
        self.guest = mock.Mock()
        self.guest.get_xml_desc.return_value = (
            '<domain><devices><serial type="pty"><source path="/dev/pts/1"/>'
            f'<log file="{self.log}"/></serial></devices></domain>')

    def test_pattern_on_the_console_is_found(self) -> None:
        probe = _of(conditions.Kind.CONSOLE, r'^ready \d+$', self.guest)
        self.assertIsNone(probe.look())
        self.log.write_bytes(b'not ready 7\r\n\xff')
        self.assertIsNone(probe.look())
        self.log.write_bytes(b'booting\r\nready 7\r\n')
        self.assertEqual('the console matches', probe.look())

    def test_slow_search_is_followed_by_a_long_pause(self) -> None:
        self.log.write_bytes(b'x')
        probe = _of(conditions.Kind.CONSOLE, 'y', self.guest)
        with mock.patch.object(probes, 'time') as clock:
            for seconds, interval in ((0.5, 10.0), (0.0, 0.25)):
                clock.monotonic.side_effect = [7.0, 7.0 + seconds]
                self.assertIsNone(probe.look())
                self.assertEqual(interval, probe.interval)

    def test_only_the_end_of_a_console_is_searched(self) -> None:
        self.log.write_bytes(b'ready' + b'.' * 32 * 1024)
        self.assertIsNone(_of(conditions.Kind.CONSOLE, 'ready', self.guest).look())

    def test_console_that_is_a_file_is_searched(self) -> None:
        self.log.write_bytes(b'ready 7\n')
        for device in ('console', 'serial'):
            self.guest.get_xml_desc.return_value = (
                f'<domain><devices><{device} type="file"><source path="{self.log}"/></{device}>'
                f'</devices></domain>')
            self.assertEqual('the console matches',
                             _of(conditions.Kind.CONSOLE, r'^ready \d+$', self.guest).look())

    def test_missing_console_is_not_ready(self) -> None:
        self.guest.get_xml_desc.return_value = '<domain><devices/></domain>'
        self.assertRaises(ValueError, _of(conditions.Kind.CONSOLE, 'x', self.guest).look)


class TestOthers(testtools.TestCase):

    def test_port_that_accepts_connections_is_ready(self) -> None:
        box = mock.Mock()
        box.accepts_connection.side_effect = [False, True]
        probe = _of(conditions.Kind.TCP, '80', box=box)
        self.assertIsNone(probe.look())
        self.assertIn('80', str(probe.look()))
        box.accepts_connection.assert_called_with('backup-1', 80, 0.5)

    def test_delay_is_ready_after_its_seconds(self) -> None:
        clock = self.useFixture(fixtures.MockPatchObject(time, 'monotonic',
                                                         return_value=100.0)).mock
        probe = _of(conditions.Kind.DELAY, '5')
        clock.return_value = 104.9
        self.assertIsNone(probe.look())
        clock.return_value = 105.0
        self.assertEqual('5 s have passed', probe.look())


class FirstFrameTest(testtools.TestCase):
    """A guest that boots, and begins to send."""

    def setUp(self) -> None:
        super().setUp()
        self.writes = 0
        self.box = mock.Mock(**{'has_sent.return_value': True})
        guest = mock.Mock()
        guest._domain.blockStats.side_effect = lambda disk: (9, 9, self.writes, 0, 0)
        self.probe = probes.FirstFrame(guest, self.box, 'backup')

    def test_frame_before_the_first_write_does_not_count(self) -> None:
        self.assertIsNone(self.probe.look())
        self.box.has_sent.assert_not_called()
        self.writes = 1
        self.assertEqual('the guest has sent a frame', self.probe.look())
        self.box.has_sent.assert_called_once_with('backup')

    def test_guest_that_writes_and_sends_nothing_is_watched_on(self) -> None:
        self.writes, self.box.has_sent.return_value = 1, False
        self.assertIsNone(self.probe.look())
        self.probe.close()
        self.box.stop_listening.assert_called_once_with('backup')
