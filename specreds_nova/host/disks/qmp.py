# SPDX-License-Identifier: Apache-2.0
"""The QEMU monitor of a libvirt domain, for commands that libvirt does not offer."""

import json
from typing import Any, TypeAlias

import libvirt_qemu

# virDomain; the binding has no types.
Domain: TypeAlias = Any


class MonitorError(Exception):
    """QEMU refused a command."""


def run(domain: Domain, command: str, **arguments: Any) -> Any:
    """Run a QMP command in a domain's QEMU.

    :param arguments: of the command, with ``_`` for each ``-``
    :returns: what QEMU returned
    :raises MonitorError: QEMU refused it
    :raises libvirtError: QEMU cannot be reached
    """
    request: dict[str, Any] = {'execute': command}
    if arguments:
        request['arguments'] = {name.replace('_', '-'): value
                                for name, value in arguments.items()}
    answer = json.loads(libvirt_qemu.qemuMonitorCommand(domain, json.dumps(request), 0))
    if 'error' in answer:
        raise MonitorError(f'{domain.name()}: {command}: {answer["error"]["desc"]}')
    return answer['return']
