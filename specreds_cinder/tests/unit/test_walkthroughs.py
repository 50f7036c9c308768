# SPDX-License-Identifier: Apache-2.0
"""The commands that are read from the page of walk-throughs."""

import pathlib
import subprocess
from unittest import mock

import fixtures
import testtools

from specreds_cinder.tests import walkthroughs

_PAGE = """\
Title
=====

.. code-block:: bash
   :name: first

   # A loop.
   for each in 1 2; do
       echo $each
   done

   echo end

Prose.

.. code-block:: bash
   :name: second

   true
"""
# What the tests on a cluster or a cloud replace, and the first and last command.
_NAMES = {
    'failover-by-hand': ('$PWD/.data/ceph/ceph.conf', 'export CEPH_CONF=', 'rbd rm '),
    'volumes-in-superposition': ('.data/cloud/openrc', '. .data/cloud', 'openstack volume delete'),
    'backup-of-a-server': ('./run cloud host ', '. .data/cloud', 'until openstack volume delete'),
}


class TextTest(testtools.TestCase):

    def test_block_without_its_indentation(self) -> None:
        page = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'page.rst')
        page.write_text(_PAGE)
        with mock.patch.object(walkthroughs, 'PAGE', page):
            self.assertEqual('# A loop.\nfor each in 1 2; do\n    echo $each\ndone\n\necho end\n',
                             walkthroughs.text('first'))
            self.assertEqual('true\n', walkthroughs.text('second'))

    def test_unknown_name_is_an_error(self) -> None:
        self.assertRaises(AssertionError, walkthroughs.text, 'no-such-block')

    def test_page_has_what_the_other_tests_replace(self) -> None:
        for name, (replaced, first, last) in _NAMES.items():
            commands = walkthroughs.text(name)
            self.assertIn(replaced, commands)
            self.assertTrue(commands.startswith(first), commands)
            self.assertTrue(commands.splitlines()[-1].startswith(last), commands)

    def test_page_has_valid_shell(self) -> None:
        for name in _NAMES:
            subprocess.run(['bash', '-n', '-c', walkthroughs.text(name)], check=True)


class PasteTest(testtools.TestCase):

    def test_first_failure_ends_it(self) -> None:
        code, output = walkthroughs.paste('echo one\nfalse\necho two\n', {'PATH': '/usr/bin:/bin'})
        self.assertEqual((1, 'one\n'), (code, output))
