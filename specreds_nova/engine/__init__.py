# SPDX-License-Identifier: Apache-2.0
"""The engine suspects hosts, starts backups of their servers, and decides each race.

Several engines share a database; each continues what another one has begun.
"""
