# SPDX-License-Identifier: Apache-2.0
"""Backups of servers on this host: start, promotion, adoption, removal, and their journal."""
