# SPDX-License-Identifier: Apache-2.0
"""The evaluation: what superposition costs and what it gains, on a Ceph of its own."""
