# SPDX-License-Identifier: Apache-2.0
"""Access to a server's guest: by a command, by ssh, or by its console."""

from collections.abc import Callable
import re
import shlex
from typing import Protocol
import uuid

from tempest import config
from tempest.lib import exceptions
from tempest.lib.common.utils.linux import remote_client

from tempest_plugin.common import commands

CONF = config.CONF

_FILE = 'specreds-tempest'
_IDENTITY = 'cat /proc/sys/kernel/random/boot_id'
_WRITER = 'specreds-busy'


class Unanswered(Exception):
    """The guest does not answer."""


class Guest(Protocol):
    """A server's guest. All methods raise :class:`Unanswered` if it does not answer.

    :ivar writes: whether the tests can make the guest write; if not, only :meth:`identity` works
    """

    writes: bool

    def identity(self) -> str: ...

    def write(self) -> str:
        """Write a new text to the disk durably, and return the text."""

    def read(self) -> str:
        """Return the text that was written last."""

    def busy(self, busy: bool) -> None:
        """Start or stop writing to the disk several times a second."""


class CommandGuest:
    """A guest that ``guest_command`` reaches.

    :param address: the address of the server
    """

    writes = True

    def __init__(self, address: str) -> None:
        self._address = address

    def identity(self) -> str:
        """Return a text that differs after each boot."""
        return self._ask('identity')

    def write(self) -> str:
        """Write a new text to the disk durably, and return the text."""
        return self._ask('write')

    def read(self) -> str:
        """Return the text that was written last."""
        return self._ask('read')

    def busy(self, busy: bool) -> None:
        """Start or stop writing to the disk several times a second."""
        self._ask('busy' if busy else 'quiet')

    def _ask(self, action: str) -> str:
        try:
            return commands.run(CONF.specreds.guest_command, action=action,
                                address=self._address)
        except commands.CommandFailed as exc:
            raise Unanswered(str(exc)) from exc


class SshGuest:
    """A guest that ssh reaches, by the options of [validation].

    :param client: of Tempest, for the guest
    """

    writes = True

    def __init__(self, client: remote_client.RemoteClient) -> None:
        self._client = client

    def identity(self) -> str:
        """Return a text that differs after each boot."""
        return self._ask(_IDENTITY)

    def write(self) -> str:
        """Write a new text to the disk durably, and return the text."""
        written = uuid.uuid4().hex
        self._ask(f'echo {written} >{_FILE} && sync')
        return written

    def read(self) -> str:
        """Return the text that was written last."""
        return self._ask(f'cat {_FILE}')

    def busy(self, busy: bool) -> None:
        """Start or stop writing to the disk several times a second."""
        loop = f'while [ -e {_WRITER} ]; do date >{_WRITER}; sync; sleep 0.2; done'
        self._ask(f'touch {_WRITER} && (nohup sh -c {shlex.quote(loop)} >/dev/null 2>&1 &)'
                  if busy else f'rm -f {_WRITER}')

    def _ask(self, command: str) -> str:
        try:
            said: str = self._client.exec_command(command)
        except (exceptions.SSHTimeout, exceptions.SSHExecCommandFailed, OSError) as exc:
            raise Unanswered(str(exc)) from exc
        return said.strip()


class ConsoleGuest:
    """A guest that only its console identifies, by a text that differs after each boot.

    :param console: returns the text on the console
    """

    writes = False

    def __init__(self, console: Callable[[], str]) -> None:
        self._console = console

    def identity(self) -> str:
        """Return a text that differs after each boot."""
        identities = re.findall(CONF.specreds.console_identity, self._console())
        if not identities:
            raise Unanswered('the console of the guest does not match [specreds] '
                             'console_identity')
        return str(identities[-1])

    def write(self) -> str:
        """Raise: a console accepts no commands."""
        raise NotImplementedError

    def read(self) -> str:
        """Raise: a console accepts no commands."""
        raise NotImplementedError

    def busy(self, busy: bool) -> None:
        """Raise: a console accepts no commands."""
        raise NotImplementedError


def kind() -> str:
    """Return the kind of access to guests on this cloud; empty if there is none."""
    if CONF.specreds.guest_command:
        return 'command'
    if CONF.validation.run_validation:
        return 'ssh'
    return 'console' if CONF.specreds.console_identity else ''
