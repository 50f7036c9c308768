# SPDX-License-Identifier: Apache-2.0
"""Base classes and helpers of the tests."""
