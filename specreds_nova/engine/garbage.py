# SPDX-License-Identifier: Apache-2.0
"""How often an engine looks for garbage, which is objects that refer only to each other.

Python looks after 700 new objects by default. Each beat is an object, so an engine of 10,000 hosts
would look 70 times a second, and sometimes through everything that it knows of these hosts. No
thread runs meanwhile.
"""

import gc

# New objects after which Python looks, less those that are gone.
_BETWEEN_LOOKS = 50_000


def collect_rarely() -> None:
    """Make Python look for garbage rarely, and never among the objects that exist now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_BETWEEN_LOOKS)
