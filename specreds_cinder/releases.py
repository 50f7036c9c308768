# SPDX-License-Identifier: Apache-2.0
"""What has moved in Cinder since the oldest release that is supported (2025.2)."""

try:
    from cinder.db import models
    from cinder.db.api import main_context_manager
except ImportError:
    # Until 2026.1.
    from cinder.db.sqlalchemy import models
    from cinder.db.sqlalchemy.api import main_context_manager

__all__ = ('main_context_manager', 'models')
