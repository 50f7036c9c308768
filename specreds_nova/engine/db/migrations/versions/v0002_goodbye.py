# SPDX-License-Identifier: Apache-2.0
"""Hosts that said goodbye."""

from alembic import op
import sqlalchemy as sa

revision = '0002'
down_revision = '0001'


def upgrade() -> None:
    """Add its kind and its time."""
    op.add_column('hosts', sa.Column('goodbye', sa.String(16)))
    op.add_column('hosts', sa.Column('goodbye_at', sa.Double))
