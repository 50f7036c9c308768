# SPDX-License-Identifier: Apache-2.0
"""``./run backup``: takes the steps of backups by hand, over Nova's message bus."""

# It chooses native threads, before other imports.
from specreds_nova import cli as cli
