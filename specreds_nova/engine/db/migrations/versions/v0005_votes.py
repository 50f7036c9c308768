# SPDX-License-Identifier: Apache-2.0
"""Votes of engines."""

from alembic import op
import sqlalchemy as sa

revision = '0005'
down_revision = '0004'


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        'votes',
        sa.Column('engine', sa.String(255), primary_key=True),
        sa.Column('ballot', sa.String(64), nullable=False),
        sa.Column('deaf', sa.Boolean, nullable=False),
        sa.Column('silent', sa.JSON, nullable=False),
        sa.Column('heard', sa.JSON, nullable=False),
        mysql_engine='InnoDB', mysql_charset='utf8mb4', mysql_collate='utf8mb4_bin')
