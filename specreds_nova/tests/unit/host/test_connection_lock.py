# SPDX-License-Identifier: Apache-2.0
"""Nova's connection to libvirt outlives libvirtd, whenever that ends."""

import threading
from typing import Any
from unittest import mock

import libvirt

from specreds_nova.host import driver
from specreds_nova.tests.unit.host import base

_SECONDS = 30


class ConnectionLockTest(base.TestCase):
    """The connection of a driver as it is made."""

    def test_connection_that_closes_while_it_is_tested_is_replaced(self) -> None:
        host = driver.SpeculativeLibvirtDriver(mock.Mock())._host
        broken, fresh = mock.Mock(), mock.Mock()
        host._wrapped_conn = broken

        def close() -> int:
            # As libvirt does if its socket ends during a call.
            host._connection_closed(broken, False, 'Connection to libvirt lost')
            error = libvirt.libvirtError('client socket is closed')
            error.err = (libvirt.VIR_ERR_INTERNAL_ERROR, libvirt.VIR_FROM_RPC)
            raise error
        broken.getLibVersion.side_effect = close
        connections: list[Any] = []
        with mock.patch.object(host, '_get_new_connection', return_value=fresh):
            # A thread that waits for itself never ends.
            asking = threading.Thread(
                target=lambda: connections.append(host.get_connection()), daemon=True)
            asking.start()
            asking.join(_SECONDS)
        self.assertEqual([fresh], connections)
