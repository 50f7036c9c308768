# SPDX-License-Identifier: Apache-2.0
"""Servers whose volumes are in drawn states, for simulations and for a real cloud."""

import hypothesis
from hypothesis import strategies

from specreds_nova.engine.placing import judgement
from testing.simulation import volumes

# cinder.objects.fields.VolumeStatus, and what Cinder sets beside it.
_STATUSES = ('available', 'error', 'error_deleting', 'attaching', 'in-use', 'detaching',
             'maintenance', 'restoring-backup', 'error_restoring', 'reserved',
             'awaiting-transfer', 'backing-up', 'error_backing-up', 'error_extending',
             'downloading', 'uploading', 'retyping', 'extending', 'reverting')
_SNAPSHOTS = ('available', 'backing-up', 'creating', 'deleting', 'error', 'error_deleting',
              'restoring', 'unmanaging')
AT_REST = volumes.Volume()
# The outcome of a recovery, by what ``server check`` promises.
OUTCOMES = {judgement.SPECULATIVE: 'recovered', judgement.EVACUATED: 'evacuated',
            judgement.FAILED: 'failed', judgement.NONE: 'failed'}

_volumes = strategies.just(AT_REST) | strategies.builds(
    volumes.Volume, status=strategies.sampled_from(_STATUSES),
    attach_status=strategies.sampled_from(('attached', 'attached', 'attaching', 'detached')),
    migration_status=strategies.sampled_from((None, None, None, 'success', 'error', 'starting',
                                              'migrating', 'completing')),
    snapshots=strategies.lists(strategies.sampled_from(_SNAPSHOTS), max_size=2).map(tuple),
    leftovers=strategies.sampled_from((0, 0, 1, 2)))
# The volumes of a server; it boots from the first one.
SERVERS = strategies.lists(_volumes, min_size=1, max_size=3)


def first(count: int) -> list[list[volumes.Volume]]:
    """Return the first drawn servers that differ and are not at rest, the same ones each time."""
    differing: list[list[volumes.Volume]] = []

    @hypothesis.settings(max_examples=10 * count, derandomize=True, database=None)
    @hypothesis.given(SERVERS)
    def note(drawn: list[volumes.Volume]) -> None:
        if drawn not in differing and any(volume != AT_REST for volume in drawn):
            differing.append(drawn)
    note()
    return differing[:count]
