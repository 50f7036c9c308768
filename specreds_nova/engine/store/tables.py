# SPDX-License-Identifier: Apache-2.0
"""The tables. Times are seconds since the epoch; texts are compared byte by byte."""

import sqlalchemy as sa
from sqlalchemy.schema import SchemaItem

METADATA = sa.MetaData()


def _table(name: str, *columns: SchemaItem) -> sa.Table:
    return sa.Table(name, METADATA, *columns, mysql_engine='InnoDB', mysql_charset='utf8mb4',
                    mysql_collate='utf8mb4_bin')


HOSTS = _table(
    'hosts',
    sa.Column('name', sa.String(255), primary_key=True),
    sa.Column('state', sa.String(16), nullable=False),
    sa.Column('generation', sa.BigInteger, nullable=False),
    sa.Column('since', sa.Double, nullable=False),
    sa.Column('why', sa.JSON, nullable=False),
    sa.Column('word', sa.String(16)),
    sa.Column('word_reason', sa.Text),
    sa.Column('flaps', sa.Integer, nullable=False),
    sa.Column('goodbye', sa.String(16)),
    sa.Column('goodbye_at', sa.Double),
    sa.Column('held', sa.JSON),
    sa.Column('kernel', sa.String(255)),
    sa.Column('sentinel', sa.String(16)),
    sa.Column('voices', sa.String(16)),
    sa.Column('silent_since', sa.Double),
    sa.Column('shows', sa.Boolean, nullable=False),
    sa.Column('dead_at', sa.Double),
)

RECOVERIES = _table(
    'recoveries',
    sa.Column('id', sa.String(36), primary_key=True),
    sa.Column('server', sa.String(36), nullable=False),
    # 1 until it has ended, then null, which is never equal to another null.
    sa.Column('active', sa.SmallInteger),
    sa.Column('server_name', sa.String(255), nullable=False),
    sa.Column('project', sa.String(255), nullable=False),
    sa.Column('host', sa.String(255), nullable=False),
    sa.Column('suspected', sa.Double, nullable=False),
    sa.Column('state', sa.String(16), nullable=False),
    sa.Column('epoch', sa.BigInteger, nullable=False),
    sa.Column('engine', sa.String(255)),
    sa.Column('why', sa.JSON, nullable=False),
    sa.Column('priority', sa.Integer, nullable=False),
    sa.Column('expected', sa.Double),
    sa.Column('destination', sa.String(255)),
    sa.Column('superposition', sa.String(64)),
    sa.Column('outcome', sa.String(16)),
    sa.Column('error', sa.Text),
    sa.Column('abort', sa.Text),
    sa.Column('bytes', sa.BigInteger),
    sa.Column('created', sa.Double, nullable=False),
    sa.Column('updated', sa.Double, nullable=False),
    sa.Column('ended', sa.Double),
    sa.UniqueConstraint('server', 'active', name='recoveries_one_active'),
    sa.Index('recoveries_active', 'active', 'host'),
    sa.Index('recoveries_created', 'created', 'id'),
    sa.Index('recoveries_project', 'project', 'created'),
    sa.Index('recoveries_ended', 'ended'),
)

STEPS = _table(
    'recovery_steps',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer, 'sqlite'), primary_key=True,
              autoincrement=True),
    sa.Column('recovery', sa.String(36),
              sa.ForeignKey('recoveries.id', name='recovery_steps_recovery', ondelete='CASCADE'),
              nullable=False),
    sa.Column('name', sa.String(64), nullable=False),
    sa.Column('attempt', sa.Integer, nullable=False),
    sa.Column('engine', sa.String(255), nullable=False),
    sa.Column('began', sa.Double, nullable=False),
    sa.Column('ended', sa.Double),
    sa.Column('detail', sa.JSON, nullable=False),
    sa.UniqueConstraint('recovery', 'name', 'attempt', name='recovery_steps_attempt'),
)

ENGINES = _table(
    'engines',
    sa.Column('engine', sa.String(255), primary_key=True),
    sa.Column('counter', sa.BigInteger, nullable=False),
    sa.Column('deaf', sa.Boolean, nullable=False),
    sa.Column('silent', sa.JSON, nullable=False),
    sa.Column('heard', sa.JSON, nullable=False),
    sa.Column('expected', sa.JSON, nullable=False),
)

MODES = _table(
    'modes',
    sa.Column('scope', sa.String(16), primary_key=True),
    sa.Column('name', sa.String(255), primary_key=True),
    sa.Column('lasts', sa.Boolean, primary_key=True),
    sa.Column('mode', sa.String(16), nullable=False),
    sa.Column('reason', sa.Text, nullable=False),
    sa.Column('user', sa.String(255), nullable=False),
    sa.Column('since', sa.Double, nullable=False),
    sa.Column('until', sa.Double),
)

CRASHES = _table(
    'crashes',
    sa.Column('server', sa.String(36), primary_key=True),
    sa.Column('host', sa.String(255), primary_key=True),
    sa.Column('heard', sa.Double, nullable=False),
    sa.Column('why', sa.JSON, nullable=False),
)

DURATIONS = _table(
    'durations',
    sa.Column('server', sa.String(36), primary_key=True),
    sa.Column('seconds', sa.Double, nullable=False),
    sa.Column('samples', sa.Integer, nullable=False),
    sa.Column('updated', sa.Double, nullable=False),
)
