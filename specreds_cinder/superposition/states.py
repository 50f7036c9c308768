# SPDX-License-Identifier: Apache-2.0
"""The states and outcomes of a superposition. This module imports nothing.

:mod:`specreds_cinder.superposition.protocol` says what holds in each state.
"""

CREATING = 'creating'
SUPERPOSED = 'superposed'
COLLAPSING = 'collapsing'
PROMOTED = 'promoted'
MERGING = 'merging'
MERGED = 'merged'
ABORTING = 'aborting'

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
# All states, in the order in which a superposition passes through them.
STATES = (CREATING, SUPERPOSED, COLLAPSING, ABORTING, PROMOTED, MERGING, MERGED)
# The backup's version is the real one: only a merge may end the superposition.
DECIDED = frozenset({PROMOTED, MERGING, MERGED})
# The real version is read through the overlay.
THROUGH_OVERLAY = frozenset({PROMOTED, MERGING})

ABORTED = 'aborted'
DIRTY = 'dirty'
LATE_DIRTY = 'late-dirty'
# Outcomes that a record stores; PROMOTED is both a state and an outcome.
OUTCOMES = (PROMOTED, ABORTED, DIRTY, LATE_DIRTY)
# Result of a preparation, never stored as an outcome: fenced and clean, and the record of
# another superposition decides.
PREPARED = 'prepared'
