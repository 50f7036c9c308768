# SPDX-License-Identifier: Apache-2.0
"""Tests of several services together, with servers."""
