# SPDX-License-Identifier: Apache-2.0
"""Connect to the libvirt of this host, also where it requires SASL."""

from typing import Any

import libvirt

_CREDENTIALS = [libvirt.VIR_CRED_AUTHNAME, libvirt.VIR_CRED_ECHOPROMPT, libvirt.VIR_CRED_REALM,
                libvirt.VIR_CRED_PASSPHRASE, libvirt.VIR_CRED_NOECHOPROMPT,
                libvirt.VIR_CRED_EXTERNAL]


def connect(uri: str) -> Any:
    """Connect as Nova does (``Host._connect`` in ``nova.virt.libvirt.host``).

    ``libvirt.open`` finds no mechanism of SASL, because it offers no credentials. With these
    types, libvirt takes the credentials from its own file (``LIBVIRT_AUTH_FILE``, ``auth.conf``).

    :raises libvirt.libvirtError: libvirt does not answer, or refuses the credentials
    """
    return libvirt.openAuth(uri, [_CREDENTIALS, _nobody_to_ask, None], 0)


def _nobody_to_ask(_credentials: Any, _opaque: Any) -> int:
    return -1
