# SPDX-License-Identifier: Apache-2.0
"""Measure what superposition costs and what it gains, on a Ceph or a cloud of its own."""
