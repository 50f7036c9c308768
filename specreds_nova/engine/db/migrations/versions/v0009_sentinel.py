# SPDX-License-Identifier: Apache-2.0
"""The state of the sentinel of each host."""

from alembic import op
import sqlalchemy as sa

revision = '0009'
down_revision = '0008'


def upgrade() -> None:
    """Add the state."""
    op.add_column('hosts', sa.Column('sentinel', sa.String(16)))
