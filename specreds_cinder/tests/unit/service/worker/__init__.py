# SPDX-License-Identifier: Apache-2.0
"""The worker of a volume service."""
