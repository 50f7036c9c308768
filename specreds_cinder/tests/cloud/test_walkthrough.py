# SPDX-License-Identifier: Apache-2.0
"""The pasted walk-through of volumes in superposition works."""

import os

from specreds_cinder.tests import walkthroughs
from specreds_cinder.tests.cloud import base


class WalkThroughTest(base.CloudTestCase):
    """Runs the page's own text on the tests' cloud."""

    def test_commands_of_volumes_in_superposition_work(self) -> None:
        openrc = str(self.cloud.openrc())
        commands = walkthroughs.text('volumes-in-superposition').replace('.data/cloud/openrc',
                                                                         openrc)
        self.assertIn(openrc, commands)
        code, output = walkthroughs.paste(commands, os.environ)
        self.assertEqual(0, code, output)
        for words in ('superposed', 'host 7 does not answer', 'promoted', 'refused, and why'):
            self.assertIn(words, output)
        self.assertEqual([], self.superpositions())
