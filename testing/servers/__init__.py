# SPDX-License-Identifier: Apache-2.0
"""The recovery that each kind of server gets, and its share of a stated population."""
