# SPDX-License-Identifier: Apache-2.0
"""The output of serial consoles, which libvirt writes to files."""

from lxml import etree
import nova.privsep.path

# How much of a console's end is searched, in bytes.
_TAIL = 32 * 1024
# Where a domain names the file of its console, in the kinds of domains that Nova makes.
_LOGS = (('./devices/console/log', 'file'), ('./devices/serial/log', 'file'),
         ('./devices/console[@type="file"]/source', 'path'),
         ('./devices/serial[@type="file"]/source', 'path'))


def path(xml: str) -> str | None:
    """Return the path of the file to which a domain's console is written, or None."""
    devices = etree.fromstring(xml)
    for where, attribute in _LOGS:
        element = devices.find(where)
        if element is not None and element.get(attribute):
            return str(element.get(attribute))
    return None


def tail(file: str) -> bytes | None:
    """Return the end of a console's output; None if there is none yet."""
    try:
        data, _ = nova.privsep.path.last_bytes(file, _TAIL)
    except FileNotFoundError:
        return None
    return bytes(data).replace(b'\r', b'')
