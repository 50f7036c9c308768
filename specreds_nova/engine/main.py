# SPDX-License-Identifier: Apache-2.0
"""The program ``specreds-engine``, which suspects hosts and recovers their servers."""

from collections.abc import Sequence
import gc
import os
import signal
import sys
import threading

from oslo_config import cfg
from oslo_db import options as db_options
from oslo_log import log as logging
from oslo_messaging import opts as messaging_opts

from specreds_cinder import removed_options
from specreds_nova import systemd
from specreds_nova.engine import conf as engine_conf
from specreds_nova.engine import exception
from specreds_nova.engine import service
from specreds_nova.engine import timing

# Levels for libraries whose logs are too long at the default level.
_QUIET = ['keystoneauth=WARN', 'urllib3=WARN',
          'oslo_messaging=INFO', 'amqp=WARN', 'kombu=WARN', 'alembic=WARN',
          'oslo_db.api=CRITICAL', 'sushy=WARN',
          # It warns of each call that waits a moment for a connection.
          'oslo.messaging._drivers.pool=ERROR']
# Connections to a broker: each has a thread, and is used for a millisecond per call.
_CONNECTIONS = 4
_RABBIT = 'oslo_messaging_rabbit'
# New objects after which Python looks for garbage, less those that are gone.
_BETWEEN_LOOKS = 50_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run an engine until a signal ends it, and return the exit status."""
    conf = cfg.CONF
    logging.register_options(conf)
    logging.set_defaults(default_log_levels=[*logging.get_default_log_levels(), *_QUIET])
    engine_conf.register(conf)
    _set_defaults(conf)
    conf(sys.argv[1:] if argv is None else argv, project='specreds', prog='specreds-engine',
         default_config_files=cfg.find_config_files('specreds', 'specreds-engine'),
         default_config_dirs=cfg.find_config_dirs('specreds', 'specreds-engine'))
    logging.setup(conf, 'specreds-engine')
    removed_options.warn(conf, engine_conf.GROUP, engine_conf.OPTIONS)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        timing.check(conf)
        engine = service.Engine(conf)
        engine.on_failure = ended.set
        engine.start()
        collect_rarely()
    except (exception.EngineError, OSError, ValueError) as exc:
        print(f'specreds-engine: {exc}', file=sys.stderr)
        return 1
    _watch(engine, ended)
    if not engine.stop():
        # Threads that wait for an answer are not joined: other engines have their recoveries.
        sys.stderr.flush()
        os._exit(int(engine.failed.is_set()))
    return int(engine.failed.is_set())


def _set_defaults(conf: cfg.ConfigOpts) -> None:
    """Set defaults of libraries' options for a process with many callers."""
    # All callers may need a connection at the same moment, and a connection beyond the size of the
    # pool is made anew each time, which costs more than what it is used for.
    conf.register_opts(db_options.database_opts, 'database')
    db_options.set_defaults(conf, max_pool_size=48, max_overflow=32)
    for group, options in messaging_opts.list_opts():
        if str(getattr(group, 'name', group)) == _RABBIT:
            conf.register_opts(options, group)
    conf.set_default('rpc_conn_pool_size', _CONNECTIONS, _RABBIT)


def _watch(engine: service.Engine, ended: threading.Event) -> None:
    """Report to systemd how the engine does, until it is to end."""
    systemd.ready()
    while not ended.wait(systemd.INTERVAL):
        status = '; '.join(engine.problems()) or 'ok'
        if engine.faults():
            systemd.troubled(status)
        else:
            # A restart does not bring a broker back.
            systemd.alive(status)
    systemd.stopping()


def collect_rarely() -> None:
    """Make Python look for garbage rarely, and never among the objects that exist now.

    Python looks after 700 new objects by default. Each beat is an object, so an engine of 10,000
    hosts would look 70 times a second, and sometimes through everything that it knows of these
    hosts. No thread runs meanwhile.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_BETWEEN_LOOKS)


if __name__ == '__main__':
    sys.exit(main())
