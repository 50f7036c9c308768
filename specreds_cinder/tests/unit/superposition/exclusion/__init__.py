# SPDX-License-Identifier: Apache-2.0
"""Ledger, roles, latch and fence."""
