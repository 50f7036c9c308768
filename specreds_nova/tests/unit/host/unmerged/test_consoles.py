# SPDX-License-Identifier: Apache-2.0
"""Consoles of servers before the end of their merge: Nova reads them from the domain."""

from typing import Any
from unittest import mock

from specreds_nova.host.unmerged import driver
from specreds_nova.tests.unit.host.unmerged import test_operations

_LOG = '/var/lib/nova/instances/a/console.log'
_XML = f"""<domain><devices>
  <graphics type="vnc" port="5907"/>
  <console type="pty"/>
  <console type="tcp"><log file="{_LOG}"/></console>
</devices></domain>"""


class ConsolesTest(test_operations.OperationsTestCase):
    """A server that runs on overlays, and a driver that knows it."""

    def setUp(self) -> None:
        super().setUp()
        self.nova: Any = driver.UnmergedLibvirtDriver.__new__(driver.UnmergedLibvirtDriver)
        self.nova.unmerged = self.unmerged
        self.nova._host = mock.Mock()
        self.nova._host.get_guest.return_value.get_xml_desc.return_value = _XML

    def test_console_of_an_unmerged_server_is_shown(self) -> None:
        self.assertEqual(5907, int(self.nova.get_vnc_console(None, self.instance).port))
        self.cinder.state.assert_not_called()

    def test_console_log_of_an_unmerged_server_is_shown(self) -> None:
        self.patch(self.nova, '_get_console_output_file', lambda instance, path: path)
        with mock.patch('os.path.exists', return_value=True):
            self.assertEqual(_LOG, self.nova.get_console_output(None, self.instance))
        self.cinder.state.assert_not_called()
