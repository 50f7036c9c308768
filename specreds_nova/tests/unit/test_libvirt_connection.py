# SPDX-License-Identifier: Apache-2.0
"""Connections to a libvirt that asks who connects."""

import pathlib

import fixtures
import libvirt
import testtools

from specreds_nova import libvirt_connection

_NODE = """
<node>
  <auth><user password="secret">nova</user></auth>
  <domain type="test">
    <name>vm1</name><memory>8192</memory><os><type>hvm</type></os>
  </domain>
</node>
"""
_CREDENTIALS = """
[credentials-default]
username=nova
password={password}

[auth-test-default]
credentials=default
"""


class ConnectTest(testtools.TestCase):
    """``connect`` against libvirt's own test driver, which requires a password here."""

    def setUp(self) -> None:
        super().setUp()
        place = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (place / 'node.xml').write_text(_NODE)
        self.uri = f'test://{place}/node.xml'
        self.credentials = place / 'auth.conf'
        self.useFixture(fixtures.EnvironmentVariable('LIBVIRT_AUTH_FILE', str(self.credentials)))
        # Otherwise libvirt prints each error.
        libvirt.registerErrorHandler(lambda *_: None, None)

    def test_credentials_come_from_the_file_of_libvirt(self) -> None:
        self.credentials.write_text(_CREDENTIALS.format(password='secret'))
        connection = libvirt_connection.connect(self.uri)
        self.addCleanup(connection.close)
        self.assertEqual(['vm1'], [domain.name() for domain in connection.listAllDomains()])

    def test_wrong_password_is_refused(self) -> None:
        self.credentials.write_text(_CREDENTIALS.format(password='guessed'))
        self.assertRaises(libvirt.libvirtError, libvirt_connection.connect, self.uri)

    def test_no_credentials_are_refused(self) -> None:
        self.credentials.write_text('')
        self.assertRaises(libvirt.libvirtError, libvirt_connection.connect, self.uri)
