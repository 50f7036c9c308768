# SPDX-License-Identifier: Apache-2.0
"""Brings a database to the version that the engine works on."""

import pathlib

from alembic import command
from alembic import config
from alembic import migration
from alembic import script
import sqlalchemy as sa

from specreds_nova.engine.db import connection as db_connection

_PLACE = pathlib.Path(__file__).parent / 'migrations'


def newest() -> str:
    """Give the version that this release works on."""
    return str(script.ScriptDirectory(str(_PLACE)).get_current_head())


def version(engine: sa.Engine) -> str | None:
    """Give the version of a database; None for one that is empty.

    :raises exception.Unreachable: it does not answer
    """
    with db_connection.translated(), engine.connect() as connection:
        return migration.MigrationContext.configure(connection).get_current_revision()


def sync(engine: sa.Engine) -> str:
    """Bring a database to the version that this release works on, and give it. May be repeated.

    :raises exception.Unreachable: it does not answer
    """
    settings = config.Config()
    settings.set_main_option('script_location', str(_PLACE).replace('%', '%%'))
    with db_connection.translated(), engine.begin() as connection:
        settings.attributes['connection'] = connection
        command.upgrade(settings, 'head')
    return newest()
