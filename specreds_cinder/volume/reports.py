# SPDX-License-Identifier: Apache-2.0
"""Reports of collapses, and views of sets, joined from those of several back ends."""

from collections.abc import Mapping, Sequence
import time
from typing import Any

from specreds_cinder.volume import backend as backends

# A check of a set that found a superposition gone.
GONE: backends.View = {
    'dirty': False, 'unproven': True, 'first': None, 'objects': 0, 'seconds': 0.0}

_STEPS = ('durable', 'fence', 'window', 'sweep2')


def collapse(report: Mapping[str, Any]) -> backends.View:
    """Return the report of a collapse as the API has it, from the protocol's report."""
    sweep2 = report['sweep2']
    return {'outcome': report['outcome'], 'durations': {
        'sweep1': report['sweep1']['seconds'], 'durable': report['durable_s'],
        'fence': report['fence_s'], 'window': report['window_s'],
        'sweep2': sweep2['seconds'] if sweep2 else 0.0, 'commit': report['commit_s'],
        'total': report['total_s']}}


def collapse_of_set(outcome: str, checks: Mapping[str, Any],
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
