# SPDX-License-Identifier: Apache-2.0
"""The record of a superposition."""
