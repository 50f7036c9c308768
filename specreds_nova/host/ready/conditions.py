# SPDX-License-Identifier: Apache-2.0
"""Conditions of readiness, as the server's metadata or the image's properties name them.

``agent``               the guest agent answers
``agent:COMMAND``       the guest agent runs COMMAND, which ends with 0
``line:NAME``           the guest writes a line to the virtio-serial port NAME
``console:REGEX``       the output of the serial console matches REGEX
``tcp:PORT``            the guest accepts a TCP connection
``delay:SECONDS``       the guest has run for that time
``boot``                the boot seems to be over: see :mod:`specreds_nova.host.ready.probes`

Server metadata ``specreds:ready`` have precedence over the image property ``specreds_ready``; the
same holds for ``specreds:ready_timeout`` and ``specreds_ready_timeout``, in seconds. A value has
at most 255 characters. A server has one condition.
"""

import dataclasses
import enum
import re
import shlex
from typing import Any

from nova.virt.libvirt import config as vconfig
from oslo_utils import strutils

from specreds_nova import exception
from specreds_nova.host.ready import expressions

KEY = 'specreds:ready'
TIMEOUT_KEY = 'specreds:ready_timeout'

# Nova keeps an image's properties in the server's system metadata.
_IMAGE = 'image_'
_PROPERTY = 'specreds_ready'
_TIMEOUT_PROPERTY = 'specreds_ready_timeout'

# Seconds after which a backup that has not said that it is ready is late, unless its server says
# otherwise. Engines assume the same until the host of the backup answers.
READY_TIMEOUT_S = 300.0
_LONGEST = 86400.0
# In characters; the limit of Nova for metadata.
_LONGEST_VALUE = 255
_CHANNEL_NAME = re.compile(r'[A-Za-z0-9_.-]{1,63}')
_AGENT_CHANNEL = 'org.qemu.guest_agent.0'


class BadCondition(exception.BackupError):
    """A server's metadata or image properties have a malformed condition."""

    code = 400
    msg_fmt = 'server %(instance)s: %(name)s = %(value)r is no condition of readiness: %(reason)s'


class Kind(enum.StrEnum):
    """What a condition is about."""

    AGENT = 'agent'
    LINE = 'line'
    CONSOLE = 'console'
    TCP = 'tcp'
    DELAY = 'delay'
    BOOT = 'boot'


# Kinds whose argument may be missing, and those that have none.
_WITHOUT = (Kind.AGENT, Kind.BOOT)
_NEVER = (Kind.BOOT,)


class Channel(vconfig.LibvirtConfigGuestChannel):
    """A virtio-serial port whose socket on the host is named and guarded by libvirt."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.type = 'unix'
        self.target_name = name
        self.source_path = ''

    def format_dom(self) -> Any:
        device = super().format_dom()
        device.remove(device.find('source'))
        return device


@dataclasses.dataclass(frozen=True)
class Condition:
    """When a backup is ready.

    :param argument: the text after the colon, validated
    :param timeout: seconds after which waiting ends
    :param owned: the server's metadata or its image set the timeout
    :param explicit: the server's metadata or its image set a condition, valid or not
    :param agent_port: Nova gives the server the guest agent's port anyway
    :param refused: why the owner's condition was replaced by the default; empty if it was not
    """

    kind: Kind
    argument: str
    timeout: float
    agent_port: bool = False
    owned: bool = False
    refused: str = ''
    explicit: bool = False

    def __str__(self) -> str:
        text = f'{self.kind}:{self.argument}' if self.argument else str(self.kind)
        return f'{text} (by default: {self.refused})' if self.refused else text

    def devices(self) -> list[Channel]:
        """Return the devices that a domain needs for it, besides those that Nova adds."""
        if self.kind is Kind.LINE:
            return [Channel(self.argument)]
        if self.kind is Kind.AGENT and not self.agent_port:
            return [Channel(_AGENT_CHANNEL)]
        return []


def default(instance: Any, refused: str = '') -> Condition:
    """Return the condition of a server whose owner has set no valid one.

    :param refused: why the owner's condition is not valid
    """
    agent_port = _has_agent_port(instance)
    kind = Kind.AGENT if agent_port else Kind.BOOT
    return Condition(kind, '', READY_TIMEOUT_S, agent_port, refused=refused,
                     explicit=bool(refused))


def parse(instance: Any) -> Condition:
    """Return the condition of a server.

    :param instance: nova.objects.Instance with its metadata and system metadata
    :raises BadCondition: the condition or the timeout is malformed
    """
    name, value = _written(instance, KEY, _PROPERTY)
    usual = default(instance)
    kind, argument = usual.kind, usual.argument
    if value is not None:
        try:
            kind, argument = _read(value.strip())
        except ValueError as exc:
            raise BadCondition(instance=instance.uuid, name=name,
                                      value=value[:_LONGEST_VALUE],
                                      reason=str(exc)) from exc
    timeout = _timeout(instance)
    return Condition(kind, argument, usual.timeout if timeout is None else timeout,
                     usual.agent_port, owned=timeout is not None, explicit=value is not None)


def _has_agent_port(instance: Any) -> bool:
    return strutils.bool_from_string(
        instance.system_metadata.get(f'{_IMAGE}hw_qemu_guest_agent', ''))


def _timeout(instance: Any) -> float | None:
    name, value = _written(instance, TIMEOUT_KEY, _TIMEOUT_PROPERTY)
    if value is None:
        return None
    try:
        return _seconds(value)
    except ValueError as exc:
        raise BadCondition(instance=instance.uuid, name=name,
                                  value=value[:_LONGEST_VALUE], reason=str(exc)) from exc


def _written(instance: Any, key: str, image_property: str) -> tuple[str, str | None]:
    """Return the name under which a value is set, and the value; None if it is not set."""
    if key in instance.metadata:
        return key, instance.metadata[key]
    return image_property, instance.system_metadata.get(_IMAGE + image_property)


def _read(value: str) -> tuple[Kind, str]:
    _bound(value)
    word, colon, argument = value.partition(':')
    try:
        kind = Kind(word)
    except ValueError:
        kinds = ', '.join(Kind)
        raise ValueError(f'it must begin with one of {kinds}') from None
    if colon and not argument:
        raise ValueError('an argument must follow the colon')
    if argument and kind in _NEVER:
        raise ValueError(f'{kind} has no argument')
    if not argument and kind not in _WITHOUT:
        raise ValueError(f'{kind} needs an argument: {kind}:…')
    _check(kind, argument)
    return kind, argument


def _check(kind: Kind, argument: str) -> None:
    """Check an argument.

    :raises ValueError: it is malformed
    """
    if kind is Kind.AGENT and argument and not shlex.split(argument):
        raise ValueError('the command is empty')
    if kind is Kind.LINE and (not _CHANNEL_NAME.fullmatch(argument)
                              or argument == _AGENT_CHANNEL):
        raise ValueError('the name of a port consists of letters, digits, ".", "_" and "-", '
                         "and is not the guest agent's")
    if kind is Kind.CONSOLE:
        expressions.Expression(argument)
    if kind is Kind.TCP and not (argument.isascii() and argument.isdigit()
                                 and 1 <= int(argument) <= 65535):
        raise ValueError('a port is a number from 1 to 65535')
    if kind is Kind.DELAY:
        _seconds(argument)


def _bound(text: str) -> None:
    """Check the length of a text.

    :raises ValueError: it is too long
    """
    if len(text) > _LONGEST_VALUE:
        raise ValueError(f'it has more than {_LONGEST_VALUE} characters')


def _seconds(text: str) -> float:
    _bound(text)
    try:
        value = float(text)
    except ValueError:
        raise ValueError('it is not a number of seconds') from None
    if not 0 <= value <= _LONGEST:
        raise ValueError(f'it must be from 0 to {_LONGEST:.0f} seconds')
    return value
