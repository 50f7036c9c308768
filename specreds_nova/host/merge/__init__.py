# SPDX-License-Identifier: Apache-2.0
"""Merge the overlays of running servers into their volumes."""
