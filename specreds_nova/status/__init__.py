# SPDX-License-Identifier: Apache-2.0
"""``specreds-status upgrade check``: checks of the configuration of this host."""
