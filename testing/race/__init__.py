# SPDX-License-Identifier: Apache-2.0
"""A primary and a backup race on a real cluster, and a checker judges the result."""
