# SPDX-License-Identifier: Apache-2.0
"""Goodbyes of hosts."""

from alembic import op
import sqlalchemy as sa

revision = '0002'
down_revision = '0001'


def upgrade() -> None:
    """Add kind and time of the goodbye."""
    op.add_column('hosts', sa.Column('goodbye', sa.String(16)))
    op.add_column('hosts', sa.Column('goodbye_at', sa.Double))
