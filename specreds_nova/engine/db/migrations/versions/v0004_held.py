# SPDX-License-Identifier: Apache-2.0
"""Hosts that gates hold back."""

from alembic import op
import sqlalchemy as sa

revision = '0004'
down_revision = '0003'


def upgrade() -> None:
    """Add the reasons."""
    op.add_column('hosts', sa.Column('held', sa.JSON))
