# SPDX-License-Identifier: Apache-2.0
"""Frames of guests that boot, and of those whose services start."""

import socket
from unittest import mock

import ddt
import fixtures
import testtools

from specreds_nova.host.box import frames
from specreds_nova.host.box import privileged
from specreds_nova.tests.unit.host.box import fakes
from specreds_nova.tests.unit.host.box import sealing_base

_ADDRESSES = bytes(12)
_ARP = _ADDRESSES + b'\x08\x06' + bytes(28)


def _ipv4(protocol: int, payload: bytes, options: int = 0) -> bytes:
    header = bytes([0x45 + options]) + bytes(8) + bytes([protocol]) + bytes(10 + 4 * options)
    return _ADDRESSES + b'\x08\x00' + header + payload


def _ipv6(protocol: int, payload: bytes, source: bytes = bytes(15) + b'\x01') -> bytes:
    return (_ADDRESSES + b'\x86\xdd' + bytes(6) + bytes([protocol, 255]) + source + bytes(16)
            + payload)


def _udp(port: int) -> bytes:
    return bytes(2) + port.to_bytes(2, 'big') + bytes(4)


_HOP_BY_HOP = bytes([58, 0]) + bytes(6)


@ddt.ddt
class FramesTest(testtools.TestCase):
    """Which frames say that services start."""

    @ddt.data(_ARP, _ipv4(6, bytes(20)), _ipv4(17, _udp(123)), _ipv4(17, _udp(53), options=1),
              _ipv6(6, bytes(20)), _ipv6(17, _udp(53)), _ipv6(58, bytes([135]) + bytes(23)),
              _ADDRESSES + b'\x81\x00\x00\x07' + _ARP[12:])
    def test_frame_of_services(self, frame: bytes) -> None:
        self.assertTrue(frames.of_services(frame))

    @ddt.data(
        b'', _ADDRESSES, _ADDRESSES + b'\x80\x35' + bytes(28), _ADDRESSES + b'\x88\xcc' + bytes(9),
        _ipv4(17, _udp(67)), _ipv4(17, _udp(67), options=1), _ipv4(2, bytes(8)),
        _ipv6(17, _udp(547)), _ipv6(58, bytes([133]) + bytes(7)),
        _ipv6(0, _HOP_BY_HOP + bytes([143]) + bytes(7)),
        _ipv6(0, _HOP_BY_HOP + bytes([131]) + bytes(7)),
        _ipv6(58, bytes([135]) + bytes(23), source=bytes(16)), _ipv6(58, b''), _ipv6(0, b''),
        _ADDRESSES + b'\x08\x00\x45')
    def test_frame_of_firmware_or_kernel(self, frame: bytes) -> None:
        self.assertFalse(frames.of_services(frame))


class ListeningTest(testtools.TestCase):
    """The device of a guest that is listened to."""

    tap = fakes.plan().tap

    def setUp(self) -> None:
        super().setUp()
        privileged.context.set_client_mode(False)
        self.addCleanup(privileged.context.set_client_mode, True)
        self.received: list[tuple[bytes, int]] = []
        self.socket = self.useFixture(fixtures.MockPatch('socket.socket')).mock
        self.socket.return_value.recvfrom.side_effect = self.receive
        self.addCleanup(privileged.stop_listening, self.tap)

    def receive(self, _longest: int) -> tuple[bytes, tuple[str, int, int]]:
        """Return the next frame, as the kernel does."""
        if not self.received:
            raise BlockingIOError
        frame, kind = self.received.pop(0)
        return frame, (self.tap, 0, kind)

    def test_only_frames_of_the_guest_count(self) -> None:
        self.received = [(_ARP, socket.PACKET_OUTGOING), (_ipv4(17, _udp(67)), 0)]
        self.assertFalse(privileged.has_sent(self.tap))
        self.received = [(_ARP, socket.PACKET_BROADCAST)]
        self.assertTrue(privileged.has_sent(self.tap))
        self.socket.assert_called_once()
        privileged.stop_listening(self.tap)
        self.socket.return_value.close.assert_called_once_with()

    def test_device_that_is_gone_is_an_error(self) -> None:
        self.socket.return_value.bind.side_effect = OSError('no such device')
        self.assertRaises(OSError, privileged.has_sent, self.tap)
        self.socket.return_value.close.assert_called_once_with()

    def test_only_devices_of_guests_are_listened_to(self) -> None:
        self.assertRaises(ValueError, privileged.has_sent, 'eth0')
        self.assertRaises(ValueError, privileged.stop_listening, 'eth0')


class BoxTest(sealing_base.SealingTestCase):
    """The box of a guest that is listened to."""

    def test_guest_that_cannot_be_listened_to_has_sent_nothing(self) -> None:
        self.sealed()
        with (mock.patch.object(privileged, 'has_sent', side_effect=[OSError('gone'), True]),
              mock.patch.object(privileged, 'stop_listening') as stop):
            self.assertFalse(self.box.has_sent(fakes.BACKUP_ID))
            self.assertTrue(self.box.has_sent(fakes.BACKUP_ID))
            self.assertFalse(self.box.has_sent('another'))
            self.box.stop_listening(fakes.BACKUP_ID)
        stop.assert_called_once_with(fakes.plan().tap)
