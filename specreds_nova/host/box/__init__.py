# SPDX-License-Identifier: Apache-2.0
"""The box: nothing that a backup sends leaves it until its promotion opens it."""
