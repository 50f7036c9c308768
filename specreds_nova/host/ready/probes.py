# SPDX-License-Identifier: Apache-2.0
"""Probes of backups: one for each kind of condition."""

import json
import shlex
import time
from typing import Any

import libvirt
import libvirt_qemu
from oslo_log import log as logging

from specreds_nova.host.ready import base
from specreds_nova.host.ready import boot
from specreds_nova.host.ready import conditions
from specreds_nova.host.ready import consoles
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


class Agent(base.Probe):
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


class Line(base.Probe):
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


class Console(base.Probe):
    """The output of the serial console matches an expression.

    :param guest: nova.virt.libvirt.guest.Guest
    """

    interval = 0.25

    def __init__(self, guest: Any, expression: str) -> None:
        self._path = consoles.path(guest.get_xml_desc())
        self._expression = expressions.Expression(expression)

    def look(self) -> str | None:
        if self._path is None:
            raise ValueError('the domain writes its console to no file')
        text = consoles.tail(self._path)
        if text is None:
            return None
        began = time.monotonic()
        match = self._expression.search(text)
        self.interval = max(Console.interval, (time.monotonic() - began) / _CONSOLE_SHARE)
        return None if match is None else f'the console shows {match[:200]!r}'


class Tcp(base.Probe):
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


class Delay(base.Probe):
    """A time has passed."""

    def __init__(self, seconds: float) -> None:
        self._begun = time.monotonic()
        self._seconds = seconds

    def look(self) -> str | None:
        if time.monotonic() - self._begun < self._seconds:
            return None
        return f'{self._seconds:g} s have passed'


def of(condition: conditions.Condition, guest: Any, box: Any, backup_id: str) -> base.Probe:
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
            return boot.Boot(guest)
        case conditions.Kind.DELAY:
            return Delay(float(condition.argument))
