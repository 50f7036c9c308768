# SPDX-License-Identifier: Apache-2.0
"""The walk-through of the README works when it is pasted."""

import os
import re

from specreds_cinder.tests import readme
from specreds_nova.tests.cloud import base


class ReadmeTest(base.NovaTestCase):
    """Runs the README's own text against the tests' cloud."""

    def test_walk_through(self) -> None:
        data = str(self.cloud.files.root)
        self.addCleanup(self._remove)
        text = readme.walk_through('backup walk-through').replace('.data/cloud', data)
        text = re.sub(r'\./run cloud host (\w+)', rf'./run cloud host \1 --data {data}', text)
        code, said = readme.paste(text, {
            **os.environ, 'NOVA_CONF': str(self.cloud.files.nova_conf)})
        self.assertEqual(0, code, said)
        for seen in ('running', 'promoted', 'ACTIVE', 'merged', base.BACKUP):
            self.assertIn(seen, said)

    def _remove(self) -> None:
        # What is left of it if it did not get to its end; its volume is to outlive the server.
        for server in self.drill.compute.get('/servers', params={
                'name': '^vm1$'}).json()['servers']:
            self.mend()
            self.drill.delete(server['id'], volumes=False)
