# SPDX-License-Identifier: Apache-2.0
"""The program ``specreds-engine-manage``.

It manages the database of the engines, and the keys of the heartbeats by UDP.
"""

import argparse
from collections.abc import Sequence
import os
import pathlib
import sys
import time

from oslo_config import cfg

from specreds_nova.beats import voice
from specreds_nova.beats import voice_receiver
from specreds_nova.engine import conf as engine_conf
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
    key = areas.add_parser(
        'key', help='the keys of the heartbeats by UDP, [engine] voice_keys')
    what = key.add_subparsers(metavar='COMMAND', required=True)
    new = what.add_parser(
        'new', help='make a master key; the former one is valid until it is retired')
    new.set_defaults(run=_new_key)
    host = what.add_parser('host', help='print the key of a host, which follows from the newest '
                                        'master key')
    host.add_argument('host', metavar='HOST', help='name of the host in Nova')
    host.set_defaults(run=_print_key)
    retire = what.add_parser('retire', help='remove the former master key')
    retire.set_defaults(run=_retire_key)


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


def _keys(conf: cfg.ConfigOpts) -> tuple[pathlib.Path, tuple[bytes, ...]]:
    """Return the file with the master keys, and the keys.

    :raises exception.Invalid: it cannot be read
    """
    engine_conf.register(conf)
    path = pathlib.Path(conf.engine.voice_keys)
    try:
        return path, voice.read_keys(path, voice_receiver.MASTERS)
    except (OSError, ValueError) as exc:
        raise exception.Invalid(str(exc)) from exc


def _new_key(conf: cfg.ConfigOpts) -> None:
    path, keys = _keys(conf)
    if len(keys) >= voice_receiver.MASTERS:
        raise exception.Invalid(f'{path} has {len(keys)} keys: retire the former one first')
    _write_keys(path, [voice.new_key(), *(key.hex() for key in keys)])
    print(path)


def _retire_key(conf: cfg.ConfigOpts) -> None:
    path, keys = _keys(conf)
    if len(keys) < voice_receiver.MASTERS:
        raise exception.Invalid(f'{path} has no former key')
    _write_keys(path, [keys[0].hex()])
    print(path)


def _print_key(conf: cfg.ConfigOpts) -> None:
    path, keys = _keys(conf)
    if not keys:
        raise exception.Invalid(f'there is no master key in {path}')
    print(voice.host_key(keys[0], conf.area.host).hex())


def _write_keys(path: pathlib.Path, keys: Sequence[str]) -> None:
    """Write master keys, readable by the group of the directory, or as the file was before.

    :raises exception.Invalid: that is not possible
    """
    new = path.with_suffix('.new')
    try:
        before = path.stat() if path.exists() else None
        new.unlink(missing_ok=True)
        new.touch(0o600)
        if os.geteuid() == 0:
            owner = before or path.parent.stat()
            os.chown(new, before.st_uid if before else 0, owner.st_gid)
        new.chmod(before.st_mode & 0o777 if before else 0o640)
        new.write_text(''.join(f'{key}\n' for key in keys))
        new.replace(path)
    except OSError as exc:
        raise exception.Invalid(f'the keys are not written: {exc}') from exc


if __name__ == '__main__':
    sys.exit(main())
