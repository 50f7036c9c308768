# SPDX-License-Identifier: Apache-2.0
"""Tests."""

from testing import environment

environment.limit_hypothesis()
