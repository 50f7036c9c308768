# SPDX-License-Identifier: Apache-2.0
"""The environment of alembic: run the migrations with the given connection."""

from alembic import context

from specreds_nova.engine.store import tables

context.configure(connection=context.config.attributes['connection'],
                  target_metadata=tables.METADATA, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
