# SPDX-License-Identifier: Apache-2.0
"""What a service tells systemd: that it is ready, alive, or about to stop (``sd_notify``).

Units of ``Type=notify`` count as started when the service is ready, and systemd kills and restarts
a service with ``WatchdogSec`` that has not been alive for as long. Without systemd, which sets
``NOTIFY_SOCKET``, nothing happens.
"""

import os
import socket

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

# Seconds between two reports that the service is alive; WatchdogSec of the units is 30.
INTERVAL = 1.0


def ready() -> None:
    """Report that the service has started."""
    _send('READY=1')


def alive(status: str = 'ok') -> None:
    """Report that the service is alive.

    :param status: shown by ``systemctl status``
    """
    _send('WATCHDOG=1', f'STATUS={status}')


def troubled(status: str) -> None:
    """Report what is wrong, and not that the service is alive."""
    _send(f'STATUS={status}')


def stopping() -> None:
    """Report that the service is about to stop."""
    _send('STOPPING=1')


def _send(*variables: str) -> None:
    path = os.environ.get('NOTIFY_SOCKET')
    if not path:
        return
    # An address that begins with @ is in the abstract namespace.
    address = '\0' + path[1:] if path.startswith('@') else path
    message = '\n'.join(variable.replace('\n', ' ') for variable in variables)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notify:
            notify.setblocking(False)
            notify.sendto(message.encode(), address)
    except OSError as exc:
        LOG.warning('systemd is not reached: %s', exc)
