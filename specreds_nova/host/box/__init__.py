# SPDX-License-Identifier: Apache-2.0
"""The box: nothing that a backup sends leaves it until its promotion opens it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specreds_nova.host.box import sealing


def load(driver: Any) -> 'sealing.Box':
    """Return the boxes of this host.

    :param driver: the libvirt driver
    """
    # Not at import: the privileged helper imports this package, and must not load Nova.
    from specreds_nova.host.box import sealing
    return sealing.Box(driver)
