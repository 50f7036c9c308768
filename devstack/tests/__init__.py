# SPDX-License-Identifier: Apache-2.0
"""Tests of the DevStack plug-in with a stand-in for DevStack."""

from testing import environment

environment.prepare()
