# SPDX-License-Identifier: Apache-2.0
"""What speculative recovery would do for each server of a cloud, before it is installed."""
