# SPDX-License-Identifier: Apache-2.0
"""Crashes that have to wait."""

from alembic import op
import sqlalchemy as sa

revision = '0006'
down_revision = '0005'


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        'crashes',
        sa.Column('server', sa.String(36), primary_key=True),
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('heard', sa.Double, nullable=False),
        sa.Column('why', sa.JSON, nullable=False),
        mysql_engine='InnoDB', mysql_charset='utf8mb4', mysql_collate='utf8mb4_bin')
