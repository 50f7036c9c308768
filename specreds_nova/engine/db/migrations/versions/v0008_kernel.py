# SPDX-License-Identifier: Apache-2.0
"""The boot of each host that engines know."""

from alembic import op
import sqlalchemy as sa

revision = '0008'
down_revision = '0007'


def upgrade() -> None:
    """Add the boot."""
    op.add_column('hosts', sa.Column('kernel', sa.String(255)))
