# SPDX-License-Identifier: Apache-2.0
"""Tests of the plug-in for Tempest, which needs no cloud for them."""
