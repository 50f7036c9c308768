# SPDX-License-Identifier: Apache-2.0
"""Whether guests can run with KVM on this machine."""

import functools
import json
import pathlib

from cloud import commands
from cloud.guests import boot
from cloud.guests import images

_PROBE_S = 3.0
_BOOT_ID = pathlib.Path('/proc/sys/kernel/random/boot_id')


def accelerator(progress: commands.Progress = commands.silent,
                cache: pathlib.Path | None = None) -> str:
    """Return how guests are to be run: `kvm` where a real guest boots with it, else `tcg`.

    The answer is remembered until this machine is started anew. Parameters and errors are those
    of :func:`images.image`.
    """
    return _probed(progress, cache or images.cache_dir())


@functools.cache
def _probed(progress: commands.Progress, cache: pathlib.Path) -> str:
    disk = images.image('g1', progress, cache)
    remembered = cache / 'accelerator.json'
    key = [_BOOT_ID.read_text().strip(), disk.parent.name]
    try:
        entry = json.loads(remembered.read_text())
        if entry['probed'] == key:
            return str(entry['accelerator'])
    except (OSError, ValueError, KeyError):
        # Never probed here.
        pass
    progress('finding out whether KVM works')
    answer = 'kvm' if boot.kvm_works(disk, 'G1-READY', _PROBE_S) else 'tcg'
    new = remembered.with_suffix('.new')
    new.write_text(json.dumps({'probed': key, 'accelerator': answer}) + '\n')
    new.replace(remembered)
    return answer
