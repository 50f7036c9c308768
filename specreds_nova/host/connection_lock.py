# SPDX-License-Identifier: Apache-2.0
"""The lock of Nova's connection to libvirt, which one thread may need twice.

Nova tests the connection with the lock held (``Host._get_connection``). If libvirtd ends during
that test, libvirt calls Nova's close callback in the same thread. With native threads, the
callback takes the lock as well (``Host._connection_closed``), so that nova-compute hangs until it
is restarted. The plug-in calls libvirt often, which makes this more likely than with Nova alone.
"""

import threading
from typing import Any


def make_reentrant(host: Any) -> None:
    """Let the thread that holds the lock take it again.

    :param host: Nova's :class:`nova.virt.libvirt.host.Host`, before anything uses it
    """
    host._wrapped_conn_lock = threading.RLock()
