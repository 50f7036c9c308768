# SPDX-License-Identifier: Apache-2.0
"""What an operator may tune, with defaults that need no tuning."""

import dataclasses

from specreds_cinder.superposition import errors


@dataclasses.dataclass(frozen=True)
class Settings:
    """Tunables of the protocol.

    :param workers: volumes that are prepared or cleaned up at a time
    :param watch_objects_per_s: pace of the background sweep while the race runs; the default
        goes over a 100 GiB volume in 0.85 s
    :param fence_expiry_s: seconds after which Ceph forgets a blocklist entry by itself. Longer
        than any primary lives, because an entry cannot be prolonged, only removed and made anew
    :param merge_bytes_per_s: rate limit of a merge; 0 for none
    :param merge_stall_s: seconds without progress after which an offline merge is given up
    :param evict_backup: on abort, blocklist whoever still has an overlay open, so that the
        overlay of a backup on an unreachable host can be removed
    """

    workers: int = 16
    watch_objects_per_s: float = 30_000
    fence_expiry_s: int = 5 * 365 * 24 * 3600
    merge_bytes_per_s: int = 8 << 20
    merge_stall_s: float = 120
    evict_backup: bool = True

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in ('merge_bytes_per_s', 'evict_backup') else 1
            if not value >= least:
                raise errors.InvalidInput(f'{field.name} must be at least {least}, not {value}')
