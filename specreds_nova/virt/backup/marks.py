# SPDX-License-Identifier: Apache-2.0
"""The mark in a domain's own metadata that says whose backup it is."""

import dataclasses
from typing import Any

from lxml import etree
from nova.virt.libvirt import config as vconfig

PREFIX = 'specreds'
NAMESPACE = 'urn:specreds:backup:1'


@dataclasses.dataclass(frozen=True)
class Mark:
    """Whose backup a domain is."""

    recovery_id: str
    superposition_id: str


class MarkConfig(vconfig.LibvirtConfigObject):
    """The mark, as part of a domain's configuration."""

    def __init__(self, mark: Mark) -> None:
        super().__init__(root_name='backup', ns_prefix=PREFIX, ns_uri=NAMESPACE)
        self._mark = mark

    def format_dom(self) -> Any:
        """Give the element of the domain's XML."""
        dom = super().format_dom()
        dom.set('recovery', self._mark.recovery_id)
        dom.set('superposition', self._mark.superposition_id)
        return dom


def mark_of(xml: str) -> Mark | None:
    """Read whose backup a domain is; None for one that is none.

    :param xml: the domain's XML
    """
    found = etree.fromstring(xml).find(f'./metadata/{{{NAMESPACE}}}backup')
    if found is None:
        return None
    return Mark(found.get('recovery', ''), found.get('superposition', ''))
