# SPDX-License-Identifier: Apache-2.0
"""Reports of decisions, and views of sets, joined from the answers of several back ends."""

from collections.abc import Mapping, Sequence
import time
from typing import Any

from specreds_cinder.volume import backend as backends

# A check of a set that found a superposition gone.
GONE: backends.View = {
    'dirty': False, 'unproven': True, 'first': None, 'objects': 0, 'seconds': 0.0}

_STEPS = ('durable', 'fence', 'window', 'sweep2')


def of_set(outcome: str, checks: Mapping[str, Any],
                    reports: Sequence[Mapping[str, Any]], began: float,
                    commit_s: float = 0.0) -> backends.View:
    """Return one report of a set; each step takes as long as on the slowest back end."""
    return {'outcome': outcome, 'durations': {
        'sweep1': checks['seconds'],
        **{step: max((report['durations'][step] for report in reports), default=0.0)
           for step in _STEPS}, 'commit': commit_s, 'total': time.monotonic() - began}}


def join(views: Sequence[backends.View]) -> backends.View:
    """Return one view of a set from the views of its back ends, the leader's first."""
    return {**views[0], 'volumes': [volume for view in views for volume in view['volumes']],
            'overlay_bytes': backends.total(view['overlay_bytes'] for view in views)}
