# SPDX-License-Identifier: Apache-2.0
"""The QEMU monitor of a libvirt domain: for what libvirt itself does not offer."""

import json
from typing import Any, TypeAlias

import libvirt_qemu

# An untyped binding's virDomain.
Domain: TypeAlias = Any


class MonitorError(Exception):
    """QEMU refused a command."""


def run(domain: Domain, command: str, **arguments: Any) -> Any:
    """Have a domain's QEMU run a QMP command.

    :param arguments: the command's own, with ``_`` for each ``-``
    :returns: what QEMU returned
    :raises MonitorError: QEMU refused it
    :raises libvirtError: it cannot be asked
    """
    request: dict[str, Any] = {'execute': command}
    if arguments:
        request['arguments'] = {name.replace('_', '-'): value
                                for name, value in arguments.items()}
    answer = json.loads(libvirt_qemu.qemuMonitorCommand(domain, json.dumps(request), 0))
    if 'error' in answer:
        raise MonitorError(f'{domain.name()}: {command}: {answer["error"]["desc"]}')
    return answer['return']
