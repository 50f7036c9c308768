# SPDX-License-Identifier: Apache-2.0
"""One way to look at a backup for each kind of condition."""
import abc
import json
import shlex
import time
from typing import Any

import libvirt
import libvirt_qemu
from lxml import etree
import nova.privsep.path
from oslo_log import log as logging

from specreds_nova.virt.ready import conditions
from specreds_nova.virt.ready import expressions

LOG = logging.getLogger(__name__)

# Seconds.
_AGENT_TIMEOUT = 2
_CONNECT_TIMEOUT = 0.5
# What is looked at of a console's end, in bytes.
_CONSOLE_TAIL = 32 * 1024
# A guest decides what its agent answers: what is longer is not parsed, in characters.
_LONGEST_ANSWER = 64 * 1024
# Looking takes at most this share of the time.
_CONSOLE_SHARE = 0.05
_LONGEST_LINE = 4096
_NOTHING_YET = -2
# Where a domain says what its console is written to, as Nova makes domains.
_CONSOLE_LOGS = (('./devices/console/log', 'file'), ('./devices/serial/log', 'file'),
                 ('./devices/console[@type="file"]/source', 'path'),
                 ('./devices/serial[@type="file"]/source', 'path'))


class Probe(abc.ABC):
    """Looks at one running backup."""

    # Seconds between two looks.
    interval = 0.1

    @abc.abstractmethod
    def look(self) -> str | None:
        """:returns: what has been seen, once the condition holds"""

    def close(self) -> None:
        """Let go of what is held."""
        return


class Agent(Probe):
    """The guest agent answers, or has run a command with success.

    :param guest: nova.virt.libvirt.guest.Guest
    :param command: program and arguments, or nothing
    """

    interval = 0.25

    def __init__(self, guest: Any, command: str) -> None:
        self._domain = guest._domain
        self._command = shlex.split(command)
        self._running: int | None = None

    def look(self) -> str | None:
        try:
            return self._run() if self._command else self._ping()
        except libvirt.libvirtError as error:
            LOG.debug('Guest agent: %s', error)
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
    :param name: the port's
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
        except libvirt.libvirtError as error:
            LOG.debug('Port %s: %s', self._name, error)
            self.close()
            return None

    def close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            try:
                stream.abort()
            except libvirt.libvirtError as error:
                LOG.debug('Port %s: %s', self._name, error)

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
    """The serial console shows what an expression finds.

    :param guest: nova.virt.libvirt.guest.Guest
    """

    interval = 0.25

    def __init__(self, guest: Any, expression: str) -> None:
        self._path = _console_log(guest.get_xml_desc())
        self._expression = expressions.Expression(expression)

    def look(self) -> str | None:
        if self._path is None:
            raise ValueError('the domain has no console that is written to a file')
        try:
            data, _ = nova.privsep.path.last_bytes(self._path, _CONSOLE_TAIL)
        except FileNotFoundError:
            return None
        begun = time.monotonic()
        found = self._expression.search(data.replace(b'\r', b''))
        self.interval = max(Console.interval, (time.monotonic() - begun) / _CONSOLE_SHARE)
        return None if found is None else f'the console shows {found[:200]!r}'


class Tcp(Probe):
    """The guest accepts a connection from inside its box.

    :param box: the boxes of this host
    """

    interval = 0.2

    def __init__(self, box: Any, recovery_id: str, port: int) -> None:
        self._box = box
        self._recovery_id = recovery_id
        self._port = port

    def look(self) -> str | None:
        if self._box.accepts_connection(self._recovery_id, self._port, _CONNECT_TIMEOUT):
            return f'TCP port {self._port} accepts connections'
        return None


class Delay(Probe):
    """Some time has passed."""

    def __init__(self, seconds: float) -> None:
        self._begun = time.monotonic()
        self._seconds = seconds

    def look(self) -> str | None:
        if time.monotonic() - self._begun < self._seconds:
            return None
        return f'{self._seconds:g} s have passed'


def _console_log(xml: str) -> str | None:
    """:returns: path of the file that a domain's console is written to"""
    devices = etree.fromstring(xml)
    for where, attribute in _CONSOLE_LOGS:
        found = devices.find(where)
        if found is not None and found.get(attribute):
            return str(found.get(attribute))
    return None


def of(condition: conditions.Condition, guest: Any, box: Any, recovery_id: str) -> Probe:
    """:returns: what looks whether the condition holds"""
    match condition.kind:
        case conditions.Kind.AGENT:
            return Agent(guest, condition.argument)
        case conditions.Kind.LINE:
            return Line(guest, condition.argument)
        case conditions.Kind.CONSOLE:
            return Console(guest, condition.argument)
        case conditions.Kind.TCP:
            return Tcp(box, recovery_id, int(condition.argument))
        case conditions.Kind.DELAY:
            return Delay(float(condition.argument))
