# SPDX-License-Identifier: Apache-2.0
"""What tests and benchmarks share; runs from the checkout only."""
