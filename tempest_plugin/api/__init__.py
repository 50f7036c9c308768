# SPDX-License-Identifier: Apache-2.0
"""Tests of one API at a time."""
