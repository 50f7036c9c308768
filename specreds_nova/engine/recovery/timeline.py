# SPDX-License-Identifier: Apache-2.0
"""The names of the steps on the timeline of a recovery, in the order in which they are taken."""

DESTINATION = 'destination'
SUPER = 'super'
START = 'start'
RACE = 'race'
# Parts of the decision: the backup becomes durable, tenants cease to see the primary, Cinder
# decides, or the backup is dropped.
HARDEN = 'harden'
UNSEEN = 'unseen'
COLLAPSE = 'collapse'
WITHDRAW = 'withdraw'
FENCE = 'fence'
# The part of it without a superposition.
SHUT_OUT = 'shut-out'
PROMOTE = 'promote'
ADOPT = 'adopt'
# The part of it that records a request of a user which the failed host has left.
PENDING = 'pending'
MERGE = 'merge'
# A guest that was promoted at its first frame gets ready.
READY = 'ready'
# The only step of a recovery of a server that crashed on a healthy host.
RESTART = 'restart'
