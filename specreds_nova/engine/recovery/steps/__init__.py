# SPDX-License-Identifier: Apache-2.0
"""The steps of a recovery, named as its timeline names them."""
