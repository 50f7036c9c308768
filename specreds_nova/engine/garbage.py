# SPDX-License-Identifier: Apache-2.0
"""How often an engine looks for garbage: objects that only refer to each other.

Each beat is an object, so that Python's default, a look after 700 objects, means 70 looks a second
for an engine of 10,000 hosts, and now and then one at all that it knows of these hosts, during
which no thread runs.
"""

import gc

# Objects that are made, less those that are gone, until the next look.
_BETWEEN_LOOKS = 50_000


def collect_rarely() -> None:
    """Look seldom from now on, and never at what there is now: an engine keeps that."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_BETWEEN_LOOKS)
