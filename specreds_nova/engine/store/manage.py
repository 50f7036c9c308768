# SPDX-License-Identifier: Apache-2.0
"""The program ``specreds-engine-manage``, which manages the database of the engines."""

import argparse
from collections.abc import Sequence
import sys
import time

from oslo_config import cfg

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.store import connection as db_connection
from specreds_nova.engine.store import migration
from specreds_nova.engine.store import store

_DAY_S = 86400.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, and return the exit status."""
    conf = cfg.ConfigOpts()
    conf.register_cli_opt(cfg.SubCommandOpt('area', title='areas', handler=_areas))
    conf(sys.argv[1:] if argv is None else argv, project='specreds',
         prog='specreds-engine-manage',
         default_config_files=cfg.find_config_files('specreds', 'specreds-engine'),
         default_config_dirs=cfg.find_config_dirs('specreds', 'specreds-engine'))
    try:
        conf.area.run(conf)
    except exception.EngineError as exc:
        print(f'specreds-engine-manage: {exc}', file=sys.stderr)
        return 1
    return 0


def _areas(areas: 'argparse._SubParsersAction[argparse.ArgumentParser]') -> None:
    database = areas.add_parser('db', help='the database of the engines, [database] connection')
    what = database.add_subparsers(metavar='COMMAND', required=True)
    sync = what.add_parser(
        'sync', help='create the tables, or upgrade them to the version of this release; run it '
                     'before the engines of this release start; may be repeated')
    sync.set_defaults(run=_sync)
    version = what.add_parser(
        'version', help='print the versions of the tables and of this release')
    version.set_defaults(run=_version)
    purge = what.add_parser('purge', help='remove old recoveries that have ended')
    purge.add_argument('--older-than', type=_days, default=30.0, metavar='DAYS',
                       help='least age of the end in days (default: %(default)g)')
    purge.set_defaults(run=_purge)
    mode = areas.add_parser(
        'mode', help='set the mode of the cloud without the API, as before the first start')
    mode.add_argument('mode', choices=model.MODES)
    mode.add_argument('--reason', required=True, metavar='REASON')
    mode.set_defaults(run=_set_mode)


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not days >= 0:
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of days')
    return days


def _sync(conf: cfg.ConfigOpts) -> None:
    print(migration.sync(db_connection.connect(conf)))


def _version(conf: cfg.ConfigOpts) -> None:
    current = migration.version(db_connection.connect(conf))
    print(f'{current or "none"} (of this release: {migration.newest()})')


def _purge(conf: cfg.ConfigOpts) -> None:
    removed = store.from_conf(conf).prune(time.time() - conf.area.older_than * _DAY_S)
    print(f'{removed} removed')


def _set_mode(conf: cfg.ConfigOpts) -> None:
    area = conf.area
    store.from_conf(conf).set_mode(model.Mode(
        model.CLOUD, '', area.mode, area.reason, 'specreds-engine-manage', time.time()))


if __name__ == '__main__':
    sys.exit(main())
