# SPDX-License-Identifier: Apache-2.0
"""Why a merge does not go on, for now or in this process."""


class Refused(Exception):
    """Cinder does not allow it: certainly nothing was done."""


class Unknown(Exception):
    """Cinder does not answer: nobody knows whether something was done."""


class Gone(Exception):
    """The domain does not run (any more)."""


class Overtaken(Exception):
    """What this would merge counts no more: it was merged elsewhere, or its server has moved."""


class Unavailable(Exception):
    """The hypervisor does not answer at the moment."""


class Stopped(Exception):
    """This process ends; whoever comes next goes on."""


class Interrupted(Exception):
    """It cannot be gone on with now; it can another time."""
