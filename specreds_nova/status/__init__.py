# SPDX-License-Identifier: Apache-2.0
"""``specreds-status upgrade check``: whether what is configured on this host can work."""
