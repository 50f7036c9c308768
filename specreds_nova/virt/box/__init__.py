# SPDX-License-Identifier: Apache-2.0
"""The box: a backup runs, and nothing leaves it, until its promotion opens it."""
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specreds_nova.virt.box import sealing


def load(driver: Any) -> 'sealing.Box':
    """:returns: the boxes of this host
    :param driver: the libvirt driver, for its virtapi
    """
    # Not at import: the privileged helper imports this package, and needs nothing of Nova.
    from specreds_nova.virt.box import sealing
    return sealing.Box(driver)
