# SPDX-License-Identifier: Apache-2.0
"""Has the primary written? The cut, and the sweep that compares with it."""
