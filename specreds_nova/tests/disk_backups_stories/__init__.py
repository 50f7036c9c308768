# SPDX-License-Identifier: Apache-2.0
"""Tests on a cloud with backups of disks that Nova keeps in RBD.

``./run test disk_backups_stories``
"""

import specreds_nova.tests.cloud  # noqa: F401  before anything else, as it says
