# SPDX-License-Identifier: Apache-2.0
"""The overlay, and the way back to one version."""
