# SPDX-License-Identifier: Apache-2.0
"""Cut and sweep."""
