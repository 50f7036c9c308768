# SPDX-License-Identifier: Apache-2.0
"""The DevStack plug-in; in Python, only its tests."""
