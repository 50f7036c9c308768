# SPDX-License-Identifier: Apache-2.0
"""What is real: the record of a superposition, changed only by compare-and-swap."""
