# SPDX-License-Identifier: Apache-2.0
"""Tests of the benchmarks: nothing is measured."""

from testing import environment

environment.prepare()
