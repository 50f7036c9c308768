# SPDX-License-Identifier: Apache-2.0
"""Tests on a cloud whose network is OVN, which only run by name: ``./run test ovn_stories``."""

import specreds_nova.tests.cloud  # noqa: F401  before anything else, as it says
