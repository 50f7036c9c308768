# SPDX-License-Identifier: Apache-2.0
"""Probes of backups: one for each kind of condition, and for the first frame."""

import abc
import dataclasses
import json
import shlex
import time
from typing import Any

import libvirt
import libvirt_qemu
from lxml import etree
import nova.privsep.path
from oslo_log import log as logging

from specreds_nova.host.ready import conditions
from specreds_nova.host.ready import expressions

LOG = logging.getLogger(__name__)

# In seconds.
_AGENT_TIMEOUT = 2
_CONNECT_TIMEOUT = 0.5
# The guest controls its agent: a longer answer is not parsed. In characters.
_LONGEST_ANSWER = 64 * 1024
# Searching takes at most this share of the time.
_CONSOLE_SHARE = 0.05
_LONGEST_LINE = 4096
_NOTHING_YET = -2
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
# How much of a console's end is searched, in bytes.
_CONSOLE_TAIL = 32 * 1024
# Where a domain names the file of its console, in the kinds of domains that Nova makes.
_LOGS = (('./devices/console/log', 'file'), ('./devices/serial/log', 'file'),
         ('./devices/console[@type="file"]/source', 'path'),
         ('./devices/serial[@type="file"]/source', 'path'))


class Probe(abc.ABC):
    """Checks one running backup."""

    # Seconds between two checks.
    interval = 0.1

    @abc.abstractmethod
    def look(self) -> str | None:
        """Return what was observed, once the condition holds; None before."""

    def close(self) -> None:
        """Release resources."""
        return


class Agent(Probe):
    """The guest agent answers, or has run a command that ended with 0.

    :param guest: nova.virt.libvirt.guest.Guest
    :param command: program and arguments, or empty
    """

    interval = 0.25

    def __init__(self, guest: Any, command: str) -> None:
        self._domain = guest._domain
        self._command = shlex.split(command)
        self._running: int | None = None

    def look(self) -> str | None:
        try:
            return self._run() if self._command else self._ping()
        except libvirt.libvirtError as exc:
            LOG.debug('guest agent: %s', exc)
            return None

    def _ping(self) -> str:
        self._ask('guest-ping')
        return 'the guest agent answers'

    def _run(self) -> str | None:
        if self._running is None:
            program, *arguments = self._command
            self._running = self._ask('guest-exec', path=program, arg=arguments,
                                      **{'capture-output': False})['pid']
        status = self._ask('guest-exec-status', pid=self._running)
        if not status['exited']:
            return None
        self._running = None
        if status.get('exitcode') == 0:
            return f'{self._command[0]} ended with 0'
        return None

    def _ask(self, command: str, **arguments: Any) -> Any:
        request = {'execute': command, **({'arguments': arguments} if arguments else {})}
        answer = libvirt_qemu.qemuAgentCommand(self._domain, json.dumps(request),
                                               _AGENT_TIMEOUT, 0)
        if len(answer) > _LONGEST_ANSWER:
            raise ValueError(f'the guest agent answers {command} with {len(answer)} characters')
        return json.loads(answer)['return']


class Line(Probe):
    """The guest has written a line to a virtio-serial port.

    :param guest: nova.virt.libvirt.guest.Guest
    :param name: of the port
    """

    interval = 0.05

    def __init__(self, guest: Any, name: str) -> None:
        self._domain = guest._domain
        self._name = name
        self._stream: Any = None
        self._seen = b''

    def look(self) -> str | None:
        try:
            return self._read()
        except libvirt.libvirtError as exc:
            LOG.debug('port %s: %s', self._name, exc)
            self.close()
            return None

    def close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            try:
                stream.abort()
            except libvirt.libvirtError as exc:
                LOG.debug('port %s: %s', self._name, exc)

    def _read(self) -> str | None:
        if self._stream is None:
            stream = self._domain.connect().newStream(libvirt.VIR_STREAM_NONBLOCK)
            self._domain.openChannel(self._name, stream, 0)
            self._stream = stream
        data = self._stream.recv(_LONGEST_LINE)
        if data == _NOTHING_YET:
            return None
        if not data:
            self.close()
            return None
        self._seen = (self._seen + data)[-_LONGEST_LINE:]
        line, end, _ = self._seen.partition(b'\n')
        if not end:
            return None
        return f'the guest wrote {line.decode(errors="replace").strip()[:200]!r}'


class Console(Probe):
    """The output of the serial console matches an expression.

    :param guest: nova.virt.libvirt.guest.Guest
    """

    interval = 0.25

    def __init__(self, guest: Any, expression: str) -> None:
        self._path = console_path(guest.get_xml_desc())
        self._expression = expressions.Expression(expression)

    def look(self) -> str | None:
        if self._path is None:
            raise ValueError('the domain writes its console to no file')
        text = console_tail(self._path)
        if text is None:
            return None
        began = time.monotonic()
        match = self._expression.search(text)
        self.interval = max(Console.interval, (time.monotonic() - began) / _CONSOLE_SHARE)
        return None if match is None else 'the console matches'


class Tcp(Probe):
    """The guest accepts a connection from inside its box.

    :param box: the boxes of this host
    """

    interval = 0.2

    def __init__(self, box: Any, backup_id: str, port: int) -> None:
        self._box = box
        self._backup_id = backup_id
        self._port = port

    def look(self) -> str | None:
        if self._box.accepts_connection(self._backup_id, self._port, _CONNECT_TIMEOUT):
            return f'TCP port {self._port} accepts connections'
        return None


class Delay(Probe):
    """A time has passed."""

    def __init__(self, seconds: float) -> None:
        self._begun = time.monotonic()
        self._seconds = seconds

    def look(self) -> str | None:
        if time.monotonic() - self._begun < self._seconds:
            return None
        return f'{self._seconds:g} s have passed'


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


def console_path(xml: str) -> str | None:
    """Return the path of the file to which a domain's console is written, or None."""
    devices = etree.fromstring(xml)
    for where, attribute in _LOGS:
        element = devices.find(where)
        if element is not None and element.get(attribute):
            return str(element.get(attribute))
    return None


def console_tail(file: str) -> bytes | None:
    """Return the end of a console's output; None if there is none yet."""
    try:
        data, _ = nova.privsep.path.last_bytes(file, _CONSOLE_TAIL)
    except FileNotFoundError:
        return None
    return bytes(data).replace(b'\r', b'')


class Boot(Probe):
    """Disks and processors are idle, after the console or the network shows a boot.

    The network of a box answers nothing but requests for addresses, ARP and metadata.

    :param guest: nova.virt.libvirt.guest.Guest
    """

    interval = 0.25

    def __init__(self, guest: Any) -> None:
        self._domain = guest._domain
        xml = guest.get_xml_desc()
        self._console = console_path(xml)
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
        return None if self._console is None else console_tail(self._console)

    def _answered(self) -> bool:
        stats = [self._domain.interfaceStats(device) for device in self._devices]
        return any(counts[_RECEIVED] and counts[_SENT] for counts in stats)


class FirstFrame(Probe):
    """The guest has sent a frame after its first write to a disk.

    :param guest: nova.virt.libvirt.guest.Guest
    :param box: the boxes of this host
    """

    def __init__(self, guest: Any, box: Any, backup_id: str) -> None:
        self._domain = guest._domain
        self._box = box
        self._backup_id = backup_id
        self._has_written = False

    def look(self) -> str | None:
        self._has_written = (self._has_written
                             or self._domain.blockStats(_ALL_DISKS)[_WRITES] > 0)
        # The box listens from the first call on.
        if self._has_written and self._box.has_sent(self._backup_id):
            return 'the guest has sent a frame'
        return None

    def close(self) -> None:
        self._box.stop_listening(self._backup_id)


def of(condition: conditions.Condition, guest: Any, box: Any, backup_id: str) -> Probe:
    """Return the probe of a condition."""
    match condition.kind:
        case conditions.Kind.AGENT:
            return Agent(guest, condition.argument)
        case conditions.Kind.LINE:
            return Line(guest, condition.argument)
        case conditions.Kind.CONSOLE:
            return Console(guest, condition.argument)
        case conditions.Kind.TCP:
            return Tcp(box, backup_id, int(condition.argument))
        case conditions.Kind.BOOT:
            return Boot(guest)
        case conditions.Kind.DELAY:
            return Delay(float(condition.argument))
