# SPDX-License-Identifier: Apache-2.0
"""Reasons why a merge does not go on."""


class Gone(Exception):
    """The domain does not run."""


class Overtaken(Exception):
    """The overlays are not the real version: they were merged elsewhere, or the server moved."""


class Unavailable(Exception):
    """The hypervisor does not answer at the moment."""


class Stopped(Exception):
    """This process ends; the next one continues the merge."""


class Interrupted(Exception):
    """The merge cannot continue at the moment."""
