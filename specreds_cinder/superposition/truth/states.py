# SPDX-License-Identifier: Apache-2.0
"""The states and outcomes of a superposition. This module imports nothing.

:mod:`specreds_cinder.superposition.steps` says what holds in each state.
"""

CREATING = 'creating'
SUPERPOSED = 'superposed'
COLLAPSING = 'collapsing'
PROMOTED = 'promoted'
MERGING = 'merging'
MERGED = 'merged'
ABORTING = 'aborting'

# Shown for a superposition whose record cannot be read. No record has this state.
UNKNOWN = 'unknown'

# Allowed transitions. A record in a state without any can only be deleted.
MOVES = {
    CREATING: {SUPERPOSED, ABORTING},
    SUPERPOSED: {COLLAPSING, ABORTING},
    COLLAPSING: {PROMOTED, ABORTING},
    PROMOTED: {MERGING},
    MERGING: {MERGED},
    MERGED: set[str](),
    ABORTING: set[str](),
}
# Requests to a superposition.
CHECK, COLLAPSE, ABORT, MERGE, END_MERGE, RESUME = REQUESTS = (
    'check', 'collapse', 'abort', 'merge', 'end merge', 'resume')
# Steps that requests take.
NOTHING, SWEEP, DECIDE, DROP, WRITE, SWITCH, CLEAN = (
    'nothing', 'sweep', 'decide', 'drop', 'write', 'switch', 'clean')
# The step of each request in each state; any other request is a conflict.
STEPS = {
    CREATING: {ABORT: DROP, RESUME: DROP},
    SUPERPOSED: {CHECK: SWEEP, COLLAPSE: DECIDE, ABORT: DROP, RESUME: NOTHING},
    COLLAPSING: {CHECK: SWEEP, ABORT: DROP, RESUME: DECIDE},
    PROMOTED: {MERGE: WRITE, RESUME: NOTHING},
    MERGING: {MERGE: WRITE, END_MERGE: SWITCH, RESUME: WRITE},
    MERGED: {MERGE: CLEAN, END_MERGE: NOTHING, RESUME: CLEAN},
    ABORTING: {ABORT: DROP, RESUME: DROP},
}
# The state of a superposition that has ended: it has no record.
GONE = 'gone'
# The states through which a step passes, after the one in which it begins.
PASSES = {
    NOTHING: frozenset[str](),
    SWEEP: frozenset[str](),
    DECIDE: frozenset({COLLAPSING, PROMOTED, ABORTING, GONE}),
    DROP: frozenset({ABORTING, GONE}),
    WRITE: frozenset({MERGING, MERGED, GONE}),
    SWITCH: frozenset({MERGED}),
    CLEAN: frozenset({GONE}),
}
# All states, in the order in which a superposition passes through them.
STATES = (CREATING, SUPERPOSED, COLLAPSING, ABORTING, PROMOTED, MERGING, MERGED)
# The backup's version is the real one: only a merge may end the superposition.
DECIDED = frozenset({PROMOTED, MERGING, MERGED})
# The real version is read through the overlay.
THROUGH_OVERLAY = frozenset({PROMOTED, MERGING})

ABORTED = 'aborted'
DIRTY = 'dirty'
LATE_DIRTY = 'late-dirty'
UNPROVEN = 'unproven'
# Outcomes that a record stores; PROMOTED is both a state and an outcome.
OUTCOMES = (PROMOTED, ABORTED, DIRTY, LATE_DIRTY, UNPROVEN)
# Outcomes after which the primary may live on: its fence is removed.
LIVING = frozenset({ABORTED, DIRTY, UNPROVEN})
# Outcomes after which the primary stays fenced.
FENCED = frozenset({PROMOTED, LATE_DIRTY})
