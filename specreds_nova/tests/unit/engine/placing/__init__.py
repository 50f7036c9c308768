# SPDX-License-Identifier: Apache-2.0
"""Where backups run, and how many recoveries race at once."""
