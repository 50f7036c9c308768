# SPDX-License-Identifier: Apache-2.0
"""Tests on a cloud whose Nova keeps disks in RBD: ``./run test disks_stories``."""

import specreds_nova.tests.cloud  # noqa: F401  before anything else, as it says
