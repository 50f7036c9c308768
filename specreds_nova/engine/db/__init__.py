# SPDX-License-Identifier: Apache-2.0
"""The database that all engines share: every change in it is one that only one of them can win."""
