# SPDX-License-Identifier: Apache-2.0
"""Probe of guests whose owners have set no condition: the boot seems to be over."""

import dataclasses
import time
from typing import Any

import libvirt
from lxml import etree

from specreds_nova.host.ready import base
from specreds_nova.host.ready import consoles
from specreds_nova.host.ready import expressions

# What guests write to the serial console at the end of a boot: getty, cloud-init, systemd.
_MARKERS = (r'login: *$|Cloud-init v\. \S+ finished at |'
            r'Reached target [^\n]*([Mm]ulti-[Uu]ser|[Gg]raphical)')
# Seconds for which a guest is idle: after a marker, and after an answer of the box.
_IDLE_AFTER_MARKER = 1.0
_IDLE_AFTER_ANSWER = 3.0
# An idle guest wants less of one processor, and makes fewer requests to its disks per second.
_IDLE_SHARE = 0.5
_IDLE_REQUESTS = 20.0
# Seconds after which the boot is over whatever the guest does, unless something was written to its
# console within the last seconds. A stock Debian was silent for 8.5 s while it booted, and showed
# its login prompt 18 s before the end of cloud-init.
_LONGEST = 30.0
_QUIET = 15.0
# Seconds after which the boot is over whatever the console shows.
_LONGEST_WRITING = 120.0
# Indexes in libvirt's statistics: time of processors in ns, requests to read and write, packets
# that were received and sent.
_CPU_TIME = 4
_READS, _WRITES = 0, 2
_RECEIVED, _SENT = 1, 5
# All disks of a domain.
_ALL_DISKS = ''


@dataclasses.dataclass(frozen=True)
class _Sample:
    """What a guest has used so far.

    :param at: time
    :param cpu: seconds for which its virtual processors ran, or waited for a real one
    :param requests: number of requests to its disks
    """

    at: float
    cpu: float
    requests: int

    def idle(self, before: '_Sample') -> bool:
        """Return whether the guest was idle since another sample."""
        seconds = max(self.at - before.at, 1e-3)
        return ((self.cpu - before.cpu) / seconds < _IDLE_SHARE
                and (self.requests - before.requests) / seconds < _IDLE_REQUESTS)


class Boot(base.Probe):
    """Disks and processors are idle, after the console or the network shows a boot.

    The network of a box answers nothing but requests for addresses, ARP and metadata.

    :param guest: nova.virt.libvirt.guest.Guest
    """

    interval = 0.25

    def __init__(self, guest: Any) -> None:
        self._domain = guest._domain
        xml = guest.get_xml_desc()
        self._console = consoles.path(xml)
        self._devices = [str(target.get('dev')) for target in etree.fromstring(xml).iterfind(
            './devices/interface/target')]
        self._markers = expressions.Expression(_MARKERS)
        self._begun = time.monotonic()
        self._before = self._sample()
        self._idle_since = self._begun
        self._text: bytes | None = None
        self._written_at = self._begun

    def look(self) -> str | None:
        """Return what was observed, once the boot seems to be over; None before."""
        now, before = self._sample(), self._before
        self._before = now
        if not now.idle(before):
            self._idle_since = now.at
        if sign := self._pause(now.at - self._idle_since):
            return sign
        elapsed = now.at - self._begun
        if elapsed >= _LONGEST - _QUIET:
            self._listen(now.at)
        writes = bool(self._text) and now.at - self._written_at < _QUIET
        if elapsed >= (_LONGEST_WRITING if writes else _LONGEST):
            return f'{elapsed:.0f} s have passed'
        return None

    def _pause(self, idle: float) -> str | None:
        """Return the sign that the boot is over of a guest that is idle; None without one.

        :param idle: for how long, in seconds
        """
        if idle < _IDLE_AFTER_MARKER:
            return None
        if marker := self._markers.search(self._tail() or b''):
            return f'the console shows {marker[:200]!r}, and the guest is idle'
        if idle >= _IDLE_AFTER_ANSWER and self._answered():
            return 'the network has answered the guest, and the guest is idle'
        return None

    def _listen(self, now: float) -> None:
        text = self._tail()
        if text != self._text:
            self._text, self._written_at = text, now

    def _sample(self) -> _Sample:
        disks = self._domain.blockStats(_ALL_DISKS)
        wanted = self._domain.info()[_CPU_TIME] + self._delay()
        return _Sample(time.monotonic(), wanted / 1e9, disks[_READS] + disks[_WRITES])

    def _delay(self) -> int:
        """Return for how long virtual processors have waited for real ones, in ns.

        On a busy host a guest that boots gets little of a processor.
        """
        # Under eventlet Nova has a proxy, which libvirt does not take for a domain.
        domain = getattr(self._domain, '_obj', self._domain)
        [(_, stats)] = self._domain.connect().domainListGetStats(
            [domain], libvirt.VIR_DOMAIN_STATS_VCPU)
        return sum(value for key, value in stats.items()
                   if key.startswith('vcpu.') and key.endswith('.delay'))

    def _tail(self) -> bytes | None:
        return None if self._console is None else consoles.tail(self._console)

    def _answered(self) -> bool:
        stats = [self._domain.interfaceStats(device) for device in self._devices]
        return any(counts[_RECEIVED] and counts[_SENT] for counts in stats)
