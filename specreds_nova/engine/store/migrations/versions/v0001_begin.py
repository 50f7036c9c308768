# SPDX-License-Identifier: Apache-2.0
"""Create the tables.

The tables are this checkout's tables until the first release: from then on, this migration has to
list them itself.
"""

from alembic import op

from specreds_nova.engine.store import tables

revision = '0001'
down_revision = None


def upgrade() -> None:
    """Make them."""
    tables.METADATA.create_all(op.get_bind())
