# SPDX-License-Identifier: Apache-2.0
"""The cluster, and its libraries."""
