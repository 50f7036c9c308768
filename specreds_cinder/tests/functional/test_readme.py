# SPDX-License-Identifier: Apache-2.0
"""The walk-through of the README works when it is pasted."""

import os

from specreds_cinder.tests import readme
from specreds_cinder.tests.functional import base


class ReadmeTestCase(base.FunctionalTestCase):
    """Runs the README's own text against the tests' cluster."""

    def test_walk_through(self) -> None:
        text = readme.walk_through('walk-through').replace('$PWD/.data/ceph/ceph.conf',
                                                           str(self.ceph.conf))
        self.assertIn(str(self.ceph.conf), text)
        code, said = readme.paste(text, {**os.environ, 'CEPH_CONF': str(self.ceph.conf)})
        self.assertEqual(0, code, said)
        for seen in ('superposed', 'clean', 'promoted', 'merged'):
            self.assertIn(seen, said)
        # qemu-io says so, but exits with 0, when it reads something else than expected.
        self.assertNotIn('Pattern verification failed', said)
