# SPDX-License-Identifier: Apache-2.0
"""The mark in a domain's metadata that names the backup which the domain is."""

import dataclasses
import json
from typing import Any

from lxml import etree
from nova.virt.libvirt import config as vconfig

PREFIX = 'specreds'
NAMESPACE = 'urn:specreds:backup:1'
_TOPOLOGY = 'numa_topology'


@dataclasses.dataclass(frozen=True)
class Mark:
    """The backup that a domain is.

    :ivar numa_topology: what is claimed for it of the host's NUMA nodes, as in the journal
    """

    backup_id: str
    superposition_id: str
    numa_topology: dict[str, Any] | None = None


class MarkConfig(vconfig.LibvirtConfigObject):
    """The mark as part of a domain's configuration."""

    def __init__(self, mark: Mark) -> None:
        super().__init__(root_name='backup', ns_prefix=PREFIX, ns_uri=NAMESPACE)
        self._mark = mark

    def format_dom(self) -> Any:
        """Return the element of the domain's XML."""
        dom = super().format_dom()
        dom.set('id', self._mark.backup_id)
        dom.set('superposition', self._mark.superposition_id)
        if self._mark.numa_topology is not None:
            dom.set(_TOPOLOGY, json.dumps(self._mark.numa_topology))
        return dom


def mark_of(xml: str) -> Mark | None:
    """Return the mark of a domain, or None if the domain is not a backup.

    :param xml: the domain's XML
    """
    element = etree.fromstring(xml).find(f'./metadata/{{{NAMESPACE}}}backup')
    if element is None:
        return None
    return Mark(element.get('id', ''), element.get('superposition', ''),
                json.loads(element.get(_TOPOLOGY, 'null')))
