# SPDX-License-Identifier: Apache-2.0
"""Record which guests answer under an address, to the millisecond.

``icmp``
    the echo of the guest's kernel.
``arp``
    asks everybody on the network; two guests with the same address are two answers.
``who``
    a TCP connection and what guest G1 says there: an id that is another one after each boot.
"""

from collections.abc import Callable, Iterable, Iterator
import contextlib
import os
import socket
import struct
import threading

import pyroute2

from cloud.guests.client import clock
from cloud.guests.client import service

_ECHO, _ECHO_REPLY = 8, 0
_ARP = 0x0806
_REQUEST, _REPLY = 1, 2
_BROADCAST = b'\xff' * 6
_HEADER = struct.Struct('!6s6sHHHBBH6s4s6s4s')

# Sends a request; gives whoever answers it until the time is up (seconds), by a name.
Probe = Callable[[float], Iterable[str]]


class Pinger:
    """Asks again and again.

    :param interval_s: seconds from one request to the next; an answer that takes longer is lost
    :param tell: called with each event: what it is, and more about it
    """

    def __init__(self, probe: Probe, interval_s: float,
                 tell: Callable[[str, object], None]) -> None:
        self._probe = probe
        self._interval_s = interval_s
        self._tell = tell
        self._who: str | None = None
        self.record = service.Record(max(3 * interval_s, 0.05))
        self.asked = 0
        self.talkers: dict[str, int] = {}
        self.doubles = 0

    def run(self, stop: threading.Event) -> None:
        """Go on until stopped."""
        while not stop.is_set():
            began = clock.now()
            self.asked += 1
            answers = 0
            try:
                for who in self._probe(self._interval_s):
                    answers += 1
                    self._answer(who, began)
            except OSError as exc:
                self.record.failed(str(exc))
            if answers > 1:
                self.doubles += 1
                self._tell('double', {'answers': answers})
            stop.wait(max(0.0, began + self._interval_s - clock.now()))

    def _answer(self, who: str, began: float) -> None:
        at = clock.now()
        self.talkers[who] = self.talkers.get(who, 0) + 1
        if who != self._who:
            self._tell('talker', {'who': who, 'before': self._who})
            self._who = who
        if outage := self.record.answered(at, at - began):
            self._tell('outage', {'began': outage.began, 'ended': outage.ended})


@contextlib.contextmanager
def icmp(address: str) -> Iterator[Probe]:
    """Ask by ICMP echo; needs the right to raw sockets."""
    identifier, number = os.getpid() & 0xffff, 0
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        def probe(timeout: float) -> Iterator[str]:
            nonlocal number
            number = (number + 1) & 0xffff
            body = struct.pack('!BBHHH', _ECHO, 0, 0, identifier, number) + bytes(16)
            raw.sendto(struct.pack('!BBHHH', _ECHO, 0, _checksum(body), identifier, number)
                       + bytes(16), (address, 0))
            for packet, (source, _port) in _received(raw, timeout):
                header = packet[(packet[0] & 0xf) * 4:][:8]
                kind, _code, _sum, *fields = struct.unpack('!BBHHH', header)
                if source == address and kind == _ECHO_REPLY and fields == [identifier, number]:
                    yield source
        yield probe


@contextlib.contextmanager
def arp(address: str) -> Iterator[Probe]:
    """Ask everybody on the network that leads to an address; needs the right to raw sockets."""
    with pyroute2.IPRoute() as route:
        [way] = route.route('get', dst=address)
        [link] = route.get_links(way.get_attr('RTA_OIF'))
        interface = link.get_attr('IFLA_IFNAME')
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ARP)) as raw:
        raw.bind((interface, _ARP))
        own = raw.getsockname()[4]
        wanted = socket.inet_aton(address)

        def probe(timeout: float) -> Iterator[str]:
            # From nobody, as a probe for duplicates is: no cache learns anything from it.
            raw.send(_HEADER.pack(_BROADCAST, own, _ARP, 1, 0x0800, 6, 4, _REQUEST, own,
                                  bytes(4), bytes(6), wanted))
            for packet, _source in _received(raw, timeout):
                if len(packet) < _HEADER.size:
                    continue
                fields = _HEADER.unpack(packet[:_HEADER.size])
                if fields[7] == _REPLY and fields[9] == wanted:
                    yield fields[8].hex(':')
        yield probe


@contextlib.contextmanager
def who(address: str, port: int = 80) -> Iterator[Probe]:
    """Ask guest G1 over TCP who it is."""
    def probe(timeout: float) -> Iterator[str]:
        end = clock.now() + timeout
        with socket.create_connection((address, port), timeout) as connection:
            connection.sendall(b'GET /who HTTP/1.0\r\n\r\n')
            said = b''
            while chunk := _recv(connection, end):
                said += chunk
        _head, _, body = said.partition(b'\r\n\r\n')
        if body.strip():
            yield body.decode(errors='replace').strip()
    yield probe


def _received(raw: socket.socket, timeout: float) -> Iterator[tuple[bytes, tuple[str, int]]]:
    """Yield the packets that arrive until the time is up."""
    end = clock.now() + timeout
    while (left := end - clock.now()) > 0:
        raw.settimeout(left)
        try:
            yield raw.recvfrom(2048)
        except TimeoutError:
            return


def _recv(connection: socket.socket, end: float) -> bytes:
    left = end - clock.now()
    if left <= 0:
        raise TimeoutError('the answer took too long')
    connection.settimeout(left)
    return connection.recv(4096)


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f'!{len(data) // 2}H', data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff
