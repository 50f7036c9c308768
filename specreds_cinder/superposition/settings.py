# SPDX-License-Identifier: Apache-2.0
"""Settings of the protocol, with defaults that need no tuning."""

import dataclasses
import os

from specreds_cinder.superposition import errors

_MAY_BE_0 = ('merge_bytes_per_second', 'sweep_processes')
# Two threads of a process that sweeps are busy: librados's one, and the one that calls it.
_PROCESSORS_EACH = 2
# They sweep 64 TiB in some ten seconds.
_MOST_PROCESSES = 8


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the protocol.

    :param workers: number of volumes that are prepared or removed at a time
    :param watch_objects_per_second: pace of all background sweeps together, which watch the races
        of a back end; by default 100 GiB are swept in 0.85 s
    :param fence_expiry_s: seconds after which Ceph removes a blocklist entry. Longer than any
        primary lives, since an entry cannot be prolonged, only replaced
    :param stale_after_s: seconds without a change of its record after which other controllers take
        a decision for interrupted
    :param merge_bytes_per_second: limit of the rate of a merge; 0 for none
    :param merge_stall_s: seconds without progress after which an offline merge fails
    :param sweep_processes: processes at most that the sweeps of large sets of objects have
        together; 1 for none, 0 for one for each two processors, up to 8. None by default, since
        they take memory and processors that other services of the host may need
    :param sweep_objects_per_process: objects that a sweep has at least for each of its processes.
        250,000 objects of 4 MiB are 1 TiB, and take one process about a second
    """

    workers: int = 16
    watch_objects_per_second: float = 30_000
    fence_expiry_s: int = 5 * 365 * 24 * 3600
    stale_after_s: float = 60
    merge_bytes_per_second: int = 8 << 20
    merge_stall_s: float = 120
    sweep_processes: int = 1
    sweep_objects_per_process: int = 250_000

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in _MAY_BE_0 else 1
            if not value >= least:
                raise errors.InvalidInput(f'{field.name} must be at least {least}, not {value}')

    @property
    def most_sweep_processes(self) -> int:
        """Return the number of processes at most that all sweeps have together."""
        processors = len(os.sched_getaffinity(0))
        return self.sweep_processes or max(1, min(processors // _PROCESSORS_EACH,
                                                  _MOST_PROCESSES))

    def sweep_processes_for(self, objects: int) -> int:
        """Return the number of processes for a sweep; it needs none if that is less than 2."""
        return min(self.most_sweep_processes, objects // self.sweep_objects_per_process)
