# SPDX-License-Identifier: Apache-2.0
"""Nobody else may write: ledger, roles, latch and fence."""
