# SPDX-License-Identifier: Apache-2.0
"""Check what the specreds-sentinel that runs on this host may do."""

from collections.abc import Iterator
import json
import pathlib

from specreds_nova.sentinel import privileges
from specreds_nova.status import files
from specreds_nova.status import findings

_STATE = '/var/lib/nova'


def running(config: files.Files, proc: pathlib.Path = pathlib.Path('/proc')
            ) -> Iterator[findings.Finding]:
    """Check what the running sentinel may do; nothing is found if it does not run.

    :param config: of nova-compute
    :param proc: where the kernel describes processes
    """
    path = pathlib.Path(config.get('DEFAULT', 'state_path', _STATE), 'specreds/sentinel.json')
    try:
        status = json.loads(path.read_text())
        pid = int(status['pid'])
        # The number may be another program's by now.
        if b'specreds-sentinel' not in (proc / str(pid) / 'cmdline').read_bytes():
            return
        missing = privileges.missing(pid, proc)
    except (OSError, ValueError, KeyError, TypeError):
        return
    if missing:
        yield findings.failure(
            f'specreds-sentinel (process {pid}) lacks {" and ".join(missing)}: it cannot end '
            'servers that were promoted elsewhere; run it as root, or add them to '
            'AmbientCapabilities of its unit')
    for pool, why in status.get('unwatched', {}).items():
        yield findings.warning(
            f'specreds-sentinel gives no second opinion on servers with disks in pool {pool} '
            f'({why}): idle ones are replaced if nova-compute is killed; "specreds-super caps '
            f'--sentinel --pool {pool}" prints the capabilities of its client')
