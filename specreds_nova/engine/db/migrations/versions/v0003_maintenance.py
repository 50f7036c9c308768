# SPDX-License-Identifier: Apache-2.0
"""Maintenance of hosts."""

from alembic import op
import sqlalchemy as sa

revision = '0003'
down_revision = '0002'


def upgrade() -> None:
    """Add the reason, which is null outside of maintenance."""
    op.add_column('hosts', sa.Column('maintenance', sa.Text))
