# SPDX-License-Identifier: Apache-2.0
"""Readiness: a backup reports that it serves, in the way that its owner chose."""
