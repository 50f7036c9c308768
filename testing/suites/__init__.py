# SPDX-License-Identifier: Apache-2.0
"""The suites of tests, and the commands ``./run check`` and ``./run test``."""
