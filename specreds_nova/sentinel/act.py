# SPDX-License-Identifier: Apache-2.0
"""Ending a stale domain: first it is silenced, then it goes, whatever state it is in."""

import json
import os
import pathlib
import time

from oslo_log import log as logging
import pyroute2

from specreds_nova.sentinel import domains
from specreds_nova.sentinel import processes

LOG = logging.getLogger(__name__)

_GRACE_S = 5.0


def silence(domain: domains.Domain) -> None:
    """Set a domain's network interfaces down.

    In the host's kernel: it works where neither QEMU nor libvirt answers.
    """
    with pyroute2.IPRoute() as route:
        for tap in domain.taps:
            try:
                for index in route.link_lookup(ifname=tap):
                    route.link('set', index=index, state='down')
            except pyroute2.NetlinkError as exc:
                LOG.error('%s of %s could not be set down: %s', tap, domain.name,
                          exc)


def end(process: processes.Process) -> bool:
    """End a domain by killing its QEMU; libvirt notices by itself, or when it runs again.

    Not by libvirt: it asks QEMU first, and QEMU waits for storage that has shut it out.

    :returns: whether it has ended
    """
    try:
        process.kill()
    except PermissionError as exc:
        LOG.error('QEMU process %d could not be killed: %s', process.pid, exc)
        return False
    return process.ended(_GRACE_S)


def mark(directory: pathlib.Path, domain: domains.Domain, reason: str) -> None:
    """Write down why a domain was ended, for whoever wonders why it is off.

    :param directory: gets a file named after the domain's UUID
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f'{domain.uuid}.json'
    new = path.with_suffix('.new')
    new.write_text(json.dumps({'instance_uuid': domain.uuid, 'domain': domain.name,
                               'at': time.time(), 'reason': reason}) + '\n')
    os.replace(new, path)
