# SPDX-License-Identifier: Apache-2.0
"""The hosts whose silence an engine expects."""

from alembic import op
import sqlalchemy as sa

revision = '0010'
down_revision = '0009'


def upgrade() -> None:
    """Add the hosts to the votes."""
    op.add_column('votes', sa.Column('expected', sa.JSON))
