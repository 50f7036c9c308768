# SPDX-License-Identifier: Apache-2.0
"""The walk-through of a server's backup works when it is pasted."""

import os
import re

from specreds_cinder.tests import walkthroughs
from specreds_nova.tests.cloud import base


class WalkThroughTest(base.NovaTestCase):
    """The commands of the page run on the tests' cloud."""

    def test_backup_of_a_server(self) -> None:
        data = str(self.cloud.files.root)
        self.addCleanup(self._remove)
        commands = walkthroughs.text('backup-of-a-server').replace('.data/cloud', data)
        commands = re.sub(r'\./run cloud host (\w+)', rf'./run cloud host \1 --data {data}',
                          commands)
        code, output = walkthroughs.paste(commands, {
            **os.environ, 'NOVA_CONF': str(self.cloud.files.nova_conf)})
        self.assertEqual(0, code, output)
        for word in ('running', 'promoted', 'ACTIVE', 'merged', base.BACKUP):
            self.assertIn(word, output)

    def _remove(self) -> None:
        # A failed run leaves the server behind; its volume has to outlive it.
        for server in self.drill.compute.get('/servers', params={
                'name': '^vm1$'}).json()['servers']:
            self.mend()
            self.drill.delete(server['id'], volumes=False)
