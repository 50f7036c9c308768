# SPDX-License-Identifier: Apache-2.0
"""Markers of the ends of boots."""

from alembic import op
import sqlalchemy as sa

revision = '0007'
down_revision = '0006'

_LONGEST = 64


def upgrade() -> None:
    """Create the table, and add the marker that a recovery expects."""
    op.create_table(
        'markers',
        sa.Column('server', sa.String(36), primary_key=True),
        sa.Column('text', sa.String(_LONGEST), nullable=False),
        sa.Column('updated', sa.Double, nullable=False),
        mysql_engine='InnoDB', mysql_charset='utf8mb4', mysql_collate='utf8mb4_bin')
    op.add_column('recoveries', sa.Column('expected_marker', sa.String(_LONGEST)))
