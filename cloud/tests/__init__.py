# SPDX-License-Identifier: Apache-2.0
"""Tests of the development cloud, its guests and the demo: no service is started."""

from testing import environment

environment.prepare()
