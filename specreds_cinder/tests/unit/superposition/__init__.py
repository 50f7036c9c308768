# SPDX-License-Identifier: Apache-2.0
"""The protocol of superpositions."""
