# SPDX-License-Identifier: Apache-2.0
"""The database of all engines: of two engines that make the same change, one succeeds."""
