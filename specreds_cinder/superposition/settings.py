# SPDX-License-Identifier: Apache-2.0
"""Settings of the protocol, with defaults that need no tuning."""

import dataclasses

from specreds_cinder.superposition import errors


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
    :param merge_stall_s: seconds without progress after which an offline merge fails
    """

    workers: int = 16
    watch_objects_per_second: float = 30_000
    fence_expiry_s: int = 5 * 365 * 24 * 3600
    stale_after_s: float = 60
    merge_stall_s: float = 120

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not value >= 1:
                raise errors.InvalidInput(f'{field.name} must be at least 1, not {value}')
