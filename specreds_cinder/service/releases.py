# SPDX-License-Identifier: Apache-2.0
"""Modules of Cinder that have moved since the oldest supported release (2025.2)."""

try:
    from cinder.db import models
    from cinder.db.api import main_context_manager
except ImportError:
    # Up to 2026.1.
    from cinder.db.sqlalchemy import models
    from cinder.db.sqlalchemy.api import main_context_manager

__all__ = ('main_context_manager', 'models')
