# SPDX-License-Identifier: Apache-2.0
"""The driver that Nova loads: the plug-in's, or Nova's own if the installed Nova differs."""

import importlib
from typing import Any

from specreds_nova.host import nova_private

__all__ = ['SpeculativeLibvirtDriver']


def chosen() -> Any:
    """Return the class of the driver."""
    if nova_private.faults():
        return importlib.import_module('specreds_nova.host.unfit').PlainLibvirtDriver
    # Only then: even its definition relies on Nova's methods.
    return importlib.import_module('specreds_nova.host.driver').SpeculativeLibvirtDriver


SpeculativeLibvirtDriver = chosen()
