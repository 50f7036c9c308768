# SPDX-License-Identifier: Apache-2.0
"""Tests of the plug-in for Tempest itself; Tempest does not run them."""

from testing import environment

environment.prepare()

# Its options are defaults of others that are registered without them, and Tempest logs all.
import cinder.common.config  # noqa: E402, F401 - after the preparation
