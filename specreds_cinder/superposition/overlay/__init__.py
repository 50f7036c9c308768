# SPDX-License-Identifier: Apache-2.0
"""The second version of volumes, and the way back to one."""
