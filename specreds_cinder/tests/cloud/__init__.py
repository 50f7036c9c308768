# SPDX-License-Identifier: Apache-2.0
"""Tests on a running cloud, by HTTP and by command line, with real writers on real Ceph."""
