# SPDX-License-Identifier: Apache-2.0
"""Hosts in maintenance."""

from alembic import op
import sqlalchemy as sa

revision = '0003'
down_revision = '0002'


def upgrade() -> None:
    """Add its reason, which is null on the others."""
    op.add_column('hosts', sa.Column('maintenance', sa.Text))
