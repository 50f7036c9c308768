# SPDX-License-Identifier: Apache-2.0
"""Tests on a cloud whose agents use iptables, which only run by name: ``./run test hybrid``."""

import specreds_nova.tests.cloud  # noqa: F401  before anything else, as it says
