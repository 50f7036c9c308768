# SPDX-License-Identifier: Apache-2.0
"""The pasted walk-through of a failover by hand works."""

import os

from specreds_cinder.tests import walkthroughs
from specreds_cinder.tests.functional import base


class WalkThroughTestCase(base.FunctionalTestCase):
    """Runs the page's own text on the tests' cluster."""

    def test_failover_by_hand(self) -> None:
        commands = walkthroughs.text('failover-by-hand').replace('$PWD/.data/ceph/ceph.conf',
                                                                 str(self.ceph.conf))
        self.assertIn(str(self.ceph.conf), commands)
        code, output = walkthroughs.paste(commands,
                                          {**os.environ, 'CEPH_CONF': str(self.ceph.conf)})
        self.assertEqual(0, code, output)
        for word in ('superposed', 'clean', 'promoted', 'merged'):
            self.assertIn(word, output)
        # qemu-io says so, but exits with 0, when it reads something else than expected.
        self.assertNotIn('Pattern verification failed', output)
