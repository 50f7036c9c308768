# SPDX-License-Identifier: Apache-2.0
"""Tests of what tests and benchmarks share: no cluster."""

from testing import environment

environment.prepare()
