# SPDX-License-Identifier: Apache-2.0
"""Tests on a cloud whose Nova keeps disks in RBD, which only run by name: ``./run test disks``."""

import specreds_nova.tests.cloud  # noqa: F401  before anything else, as it says
