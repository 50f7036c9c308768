# SPDX-License-Identifier: Apache-2.0
"""The walk-through of the README works when it is pasted."""

import os

from specreds_cinder.tests import readme
from specreds_cinder.tests.cloud import base


class ReadmeTest(base.CloudTestCase):
    """Runs the README's own text against the tests' cloud."""

    def test_walk_through(self) -> None:
        openrc = str(self.cloud.openrc())
        text = readme.walk_through('cloud walk-through').replace('.data/cloud/openrc', openrc)
        self.assertIn(openrc, text)
        code, said = readme.paste(text, os.environ)
        self.assertEqual(0, code, said)
        for seen in ('superposed', 'host 7 does not answer', 'promoted', 'refused, and why'):
            self.assertIn(seen, said)
        self.assertEqual([], self.superpositions())
