# SPDX-License-Identifier: Apache-2.0
"""Upgrades of the database to the version of this release."""

import pathlib

from alembic import command
from alembic import config
from alembic import migration
from alembic import script
import sqlalchemy as sa

from specreds_nova.engine.store import connection as db_connection

_PLACE = pathlib.Path(__file__).parent / 'migrations'


def newest() -> str:
    """Return the version of the tables in this release."""
    return str(script.ScriptDirectory(str(_PLACE)).get_current_head())


def version(engine: sa.Engine) -> str | None:
    """Return the version of a database; None if it is empty.

    :raises exception.Unreachable: the database does not answer
    """
    with db_connection.translated(), engine.connect() as connection:
        return migration.MigrationContext.configure(connection).get_current_revision()


def sync(engine: sa.Engine) -> str:
    """Upgrade a database to the version of this release, and return it. May be repeated.

    :raises exception.Unreachable: the database does not answer
    """
    settings = config.Config()
    settings.set_main_option('script_location', str(_PLACE).replace('%', '%%'))
    with db_connection.translated(), engine.begin() as connection:
        settings.attributes['connection'] = connection
        command.upgrade(settings, 'head')
    return newest()
