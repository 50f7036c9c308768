# SPDX-License-Identifier: Apache-2.0
"""A volume service on green threads, from the point of view of a worker.

Run with a configuration file, a pool and two images; prints what happened as JSON.
"""

from cinder import monkey_patch

monkey_patch.patch()

import json  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
from typing import Any  # noqa: E402

import eventlet  # noqa: E402
from eventlet import patcher  # noqa: E402
from oslo_config import cfg  # noqa: E402
from oslo_log import log  # noqa: E402

from specreds_cinder import exception  # noqa: E402
from specreds_cinder.service.worker import client  # noqa: E402
from specreds_cinder.superposition.truth import record as records  # noqa: E402


def main(conffile: str, pool: str, *images: str) -> dict[str, Any]:
    """Call the worker from several green threads at a time."""
    assert patcher.is_monkey_patched('thread')
    log.register_options(cfg.CONF)
    cfg.CONF([])
    worker = client.Worker({'conffile': conffile, 'user': 'cinder', 'timeout': 30}, pool,
                           {}, watch=True)
    worker.call(None, 'ping')
    ticks: list[int] = []

    def tick() -> None:
        while True:
            ticks.append(1)
            eventlet.sleep(0.05)
    ticking = eventlet.spawn(tick)

    def live(image: str) -> str:
        superposition = records.new_id()
        worker.call(None, 'super', superposition=superposition, images=[image], reason='',
                    server_id=None, labels={})
        outcome: str = worker.call(None, 'collapse', superposition=superposition,
                                   durable=False)['outcome']
        worker.call(None, 'merge', superposition=superposition)
        return outcome
    living = [eventlet.spawn(live, image) for image in images]
    outcomes = [thread.wait() for thread in living]
    del ticks[:]
    waiting = [eventlet.spawn(worker.call, None, 'next_dirty', timeout=3) for _ in range(3)]
    for thread in waiting:
        thread.wait()
    ticking.kill()
    return {'outcomes': outcomes, 'ticks': len(ticks), 'killed': _kill(worker),
            'after': sum(worker.call(None, 'find', image=image) is None for image in images)}


def _kill(worker: client.Worker) -> str | None:
    """Kill the worker while a green thread waits for it, and return the name of its error."""
    asking = eventlet.spawn(worker.call, None, 'next_dirty', timeout=60)
    eventlet.sleep(0.5)
    assert worker._process is not None
    os.kill(worker._process.popen.pid, signal.SIGKILL)
    try:
        asking.wait()
    except exception.SuperpositionError as exc:
        return type(exc).__name__
    return None


if __name__ == '__main__':
    print(json.dumps(main(*sys.argv[1:])))
