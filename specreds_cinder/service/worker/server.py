# SPDX-License-Identifier: Apache-2.0
"""The worker's process, which serves one back end as long as its volume service lives.

The first line of its standard input, in JSON, has its arguments. The process ends with that input,
which also ends when the volume service is killed.
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
from specreds_cinder.service.worker import operations

READY = 'ready\n'


class Manager(managers.BaseManager):
    """Serves the ``Operations`` to its clients, which are threads of the volume service."""


def main() -> None:
    """Serve until the standard input ends."""
    arguments = json.loads(sys.stdin.readline())
    answer = os.fdopen(os.dup(sys.stdout.fileno()), 'w')
    # The log may go to the standard output, which is not read after the line READY.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _set_up_log(arguments['log'])
    cluster = sp.Cluster(**arguments['cluster'])
    protocol = sp.Protocol(cluster, sp.Settings(**arguments['settings']))
    served = operations.Operations(protocol, sp.Home(arguments['pool']),
                                   watching=arguments['watch'],
                                   others=[sp.Home(pool) for pool in arguments['others']])
    Manager.register('operations', callable=lambda: served, exposed=['call'])
    manager = Manager(address=arguments['address'], authkey=bytes.fromhex(arguments['key']))
    server = manager.get_server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with answer:
        answer.write(READY)
    sys.stdin.read()
    # Without waiting for threads that wait for Ceph: the next worker resumes their steps.
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
