# SPDX-License-Identifier: Apache-2.0
"""Check that specreds-sentinel runs on this host, and what it may do."""

from collections.abc import Iterator
import json
import pathlib
import time

from specreds_nova.sentinel import privileges
from specreds_nova.status import files
from specreds_nova.status import findings

_STATE = '/var/lib/nova'
# Seconds since a running sentinel has written its file.
_FRESH = 60.0


def running(config: files.Files, proc: pathlib.Path = pathlib.Path('/proc')
            ) -> Iterator[findings.Finding]:
    """Check that the sentinel runs, and what it may do.

    :param config: of nova-compute
    :param proc: where the kernel describes processes
    """
    path = pathlib.Path(config.get('DEFAULT', 'state_path', _STATE), 'specreds/sentinel.json')
    try:
        status = json.loads(path.read_text())
        pid = int(status['pid'])
        written = path.stat().st_mtime
    except FileNotFoundError:
        yield findings.failure(f'specreds-sentinel has never run on this host ({path} is '
                               'missing), so that servers of this host are not moved: start it')
        return
    except (OSError, ValueError, KeyError, TypeError):
        return
    try:
        # The number may be another program's by now.
        if b'specreds-sentinel' not in (proc / str(pid) / 'cmdline').read_bytes():
            raise FileNotFoundError
        missing = privileges.missing(pid, proc)
    except OSError:
        # In a container the processes of the host may be invisible.
        if time.time() - written > _FRESH:
            yield findings.failure('specreds-sentinel does not run, so that nobody ends or hides '
                                   'servers that were promoted elsewhere: start it')
        return
    except ValueError:
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
