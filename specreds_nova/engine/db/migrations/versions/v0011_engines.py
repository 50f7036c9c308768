# SPDX-License-Identifier: Apache-2.0
"""A row for each engine: the counter of its lease, and its vote."""

from alembic import op
import sqlalchemy as sa

revision = '0011'
down_revision = '0010'


def upgrade() -> None:
    """Replace the table of votes, whose content lasts for seconds."""
    op.drop_table('votes')
    op.create_table(
        'engines',
        sa.Column('engine', sa.String(255), primary_key=True),
        sa.Column('counter', sa.BigInteger, nullable=False),
        sa.Column('deaf', sa.Boolean, nullable=False),
        sa.Column('silent', sa.JSON, nullable=False),
        sa.Column('heard', sa.JSON, nullable=False),
        sa.Column('expected', sa.JSON, nullable=False),
        mysql_engine='InnoDB', mysql_charset='utf8mb4', mysql_collate='utf8mb4_bin')
