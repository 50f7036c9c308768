# SPDX-License-Identifier: Apache-2.0
"""The worker's process: it serves one back end until its volume service is gone.

It is told on its standard input what to serve, in one line of JSON; the end of that input, which
no kill of the volume service can prevent, is its own.
"""

import json
from multiprocessing import managers
import os
import sys
import threading
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from specreds_cinder import superposition as sp
from specreds_cinder.worker import operations

READY = 'ready\n'


class Manager(managers.BaseManager):
    """Gives its clients, which are threads of the volume service, the one ``Operations``."""


def main() -> None:
    """Serve until the standard input ends."""
    told = json.loads(sys.stdin.readline())
    answer = os.fdopen(os.dup(sys.stdout.fileno()), 'w')
    # The log may go to the standard output, which nobody reads once it has said that it is ready.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _set_up_log(told['log'])
    cluster = sp.Cluster(**told['cluster'])
    protocol = sp.Protocol(cluster, sp.Settings(**told['settings']))
    ours = operations.Operations(protocol, sp.Home(told['pool']), watching=told['watch'])
    Manager.register('operations', callable=lambda: ours, exposed=['call'])
    manager = Manager(address=told['address'], authkey=bytes.fromhex(told['key']))
    server = manager.get_server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with answer:
        answer.write(READY)
    sys.stdin.read()
    # Threads that wait for Ceph are not waited for: whoever comes next resumes their work.
    os._exit(0)


def _set_up_log(options: dict[str, Any]) -> None:
    conf = cfg.CONF
    logging.register_options(conf)
    conf([], project='cinder')
    for name, value in options.items():
        conf.set_override(name, value)
    logging.setup(conf, 'cinder')


if __name__ == '__main__':
    main()
