# SPDX-License-Identifier: Apache-2.0
"""The walk-through of the README works when it is pasted."""

import os
import pathlib
import re
import subprocess

from specreds_cinder.tests.functional import base

_ROOT = pathlib.Path(__file__).parents[3]
_WALK = re.compile(r'<!-- walk-through: begin -->\n```bash\n(.*?)```', re.DOTALL)
_TIMEOUT = 120


class ReadmeTestCase(base.FunctionalTestCase):
    """Runs the README's own text against the tests' cluster."""

    def test_walk_through(self) -> None:
        script = _WALK.search((_ROOT / 'README.md').read_text())
        self.assertIsNotNone(script)
        assert script is not None
        text = script[1].replace('$PWD/.data/ceph/ceph.conf', str(self.ceph.conf))
        self.assertIn(str(self.ceph.conf), text)
        environment = {**os.environ, 'CEPH_CONF': str(self.ceph.conf)}
        done = subprocess.run(['bash', '-euo', 'pipefail', '-c', text], cwd=_ROOT, text=True,
                              timeout=_TIMEOUT, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(0, done.returncode, done.stdout)
        for seen in ('superposed', 'clean', 'promoted', 'merged'):
            self.assertIn(seen, done.stdout)
        # qemu-io says so, but exits with 0, when it reads something else than expected.
        self.assertNotIn('Pattern verification failed', done.stdout)
