# SPDX-License-Identifier: Apache-2.0
"""One module per change of the tables, in the order of their ``down_revision``."""
