# SPDX-License-Identifier: Apache-2.0
"""What the tests see of a server's guest: by a command, by ssh, or on its console."""

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
    """The guest does not answer, now."""


class Guest(Protocol):
    """A server's guest. All methods raise :class:`Unanswered` if it does not answer.

    :ivar writes: whether it can be told to write; if not, only its identity can be asked for
    """

    writes: bool

    def identity(self) -> str: ...

    def write(self) -> str:
        """Write something new to the disk, see that it is durable there, and give it."""

    def read(self) -> str:
        """Give what was written last."""

    def busy(self, busy: bool) -> None:
        """Let it write to the disk several times a second, or not."""


class CommandGuest:
    """One that is asked by ``guest_command``.

    :param address: of the server
    """

    writes = True

    def __init__(self, address: str) -> None:
        self._address = address

    def identity(self) -> str:
        """Give something that is another one after each boot."""
        return self._ask('identity')

    def write(self) -> str:
        """Write something new to the disk, see that it is durable there, and give it."""
        return self._ask('write')

    def read(self) -> str:
        """Give what was written last."""
        return self._ask('read')

    def busy(self, busy: bool) -> None:
        """Let it write to the disk several times a second, or not."""
        self._ask('busy' if busy else 'quiet')

    def _ask(self, action: str) -> str:
        try:
            return commands.run(CONF.specreds.guest_command, action=action,
                                address=self._address)
        except commands.CommandFailed as error:
            raise Unanswered(str(error)) from error


class SshGuest:
    """One that is asked by ssh, as [validation] says.

    :param address: of the server
    :param key: the private key that it knows, if any
    """

    writes = True

    def __init__(self, address: str, key: str | None) -> None:
        self._client = remote_client.RemoteClient(
            address, CONF.validation.image_ssh_user,
            password=CONF.validation.image_ssh_password, pkey=key,
            ssh_timeout=CONF.validation.ssh_timeout,
            connect_timeout=CONF.validation.connect_timeout,
            ssh_shell_prologue=CONF.validation.ssh_shell_prologue,
            ssh_key_type=CONF.validation.ssh_key_type)

    def identity(self) -> str:
        """Give something that is another one after each boot."""
        return self._ask(_IDENTITY)

    def write(self) -> str:
        """Write something new to the disk, see that it is durable there, and give it."""
        written = uuid.uuid4().hex
        self._ask(f'echo {written} >{_FILE} && sync')
        return written

    def read(self) -> str:
        """Give what was written last."""
        return self._ask(f'cat {_FILE}')

    def busy(self, busy: bool) -> None:
        """Let it write to the disk several times a second, or not."""
        loop = f'while [ -e {_WRITER} ]; do date >{_WRITER}; sync; sleep 0.2; done'
        self._ask(f'touch {_WRITER} && (nohup sh -c {shlex.quote(loop)} >/dev/null 2>&1 &)'
                  if busy else f'rm -f {_WRITER}')

    def _ask(self, command: str) -> str:
        try:
            said: str = self._client.exec_command(command)
        except (exceptions.SSHTimeout, exceptions.SSHExecCommandFailed, OSError) as error:
            raise Unanswered(str(error)) from error
        return said.strip()


class ConsoleGuest:
    """One that nobody can talk to: what it says on its console when it boots tells it apart.

    :param console: gives what it has said
    """

    writes = False

    def __init__(self, console: Callable[[], str]) -> None:
        self._console = console

    def identity(self) -> str:
        """Give something that is another one after each boot."""
        found = re.findall(CONF.specreds.console_identity, self._console())
        if not found:
            raise Unanswered('it has not said what it is on its console')
        return str(found[-1])

    def write(self) -> str:
        """It cannot be told to."""
        raise NotImplementedError

    def read(self) -> str:
        """It cannot be told to."""
        raise NotImplementedError

    def busy(self, busy: bool) -> None:
        """It cannot be told to."""
        raise NotImplementedError


def kind() -> str:
    """Tell how guests are seen on this cloud; empty if they are not."""
    if CONF.specreds.guest_command:
        return 'command'
    if CONF.validation.run_validation:
        return 'ssh'
    return 'console' if CONF.specreds.console_identity else ''
