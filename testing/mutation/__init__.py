# SPDX-License-Identifier: Apache-2.0
"""Take safety steps out of the code, one at a time, and check that a named test notices each."""
