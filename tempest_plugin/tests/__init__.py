# SPDX-License-Identifier: Apache-2.0
"""Tests of the plug-in for Tempest itself; Tempest does not run them."""

from testing import environment

environment.prepare()
