# SPDX-License-Identifier: Apache-2.0
"""What each server would get if its host failed, by what the APIs of a cloud show of it.

The gates and the classes are as in ``openstack speculative server check``
(:mod:`specreds_nova.engine.placing.protection`). What only the installed services know is left
out: the features of images, and whether another host has room and a fitting CPU.
"""

from collections.abc import Iterator, Mapping
import dataclasses
from typing import Any

from specreds_nova.engine import model
from specreds_nova.engine.clients import compute
from specreds_nova.engine.placing import protection
from specreds_nova.engine.suspicion import servers as gates
from specreds_nova.preflight import reading

_CEPH = 'ceph'
# Extra specs of flavors with which a server is bound to its host.
_BOUND = ('pci_passthrough:alias', 'accel:device_profile', 'hw:cpu_realtime')
_VIFS = ('ovs', 'unbound')


@dataclasses.dataclass(frozen=True)
class Judged:
    """A server, and what it would get.

    :ivar recovery: ``speculative``, ``evacuated``, ``failed`` or ``none``
    :ivar image: the name of the image from which its volume was made, or the id of its own
    """

    id: str
    name: str
    project: str
    host: str
    flavor: str
    image: str
    aggregates: tuple[str, ...]
    recovery: str
    reasons: tuple[str, ...]


class Judge:
    """Judges the servers of a cloud.

    :param by_default: servers without metadata about it are protected
    """

    def __init__(self, cloud: reading.Cloud, *, by_default: bool = True) -> None:
        self._cloud = cloud
        self._gates = gates.Gates((gates.Protection(by_default), gates.State(), gates.Busy(),
                                   gates.Volumes()))

    def look(self, shown: Mapping[str, Any]) -> Judged:
        """Return what a server would get.

        :param shown: the server, as Nova shows it
        """
        server = compute.described(shown, {})
        closed = self._gates.reasons(
            server if server.deleting else gates.without_request(server))
        against, stuck = [*self._against(server)], [*self._stuck(server)]
        recovery = protection.outcome(gated=bool(closed), against=bool(against or stuck),
                                      stays=bool(stuck))
        return Judged(
            server.id, server.name, server.project, server.host,
            str(server.flavor.get('original_name', '')), self._image(server),
            self._cloud.aggregates.get(server.host, ()), recovery,
            (*closed, *against, *stuck))

    def _image(self, server: model.Server) -> str:
        if server.image is not None:
            return server.image
        volume = self._cloud.volumes.get(server.volumes[0], {}) if server.volumes else {}
        return str((volume.get('volume_image_metadata') or {}).get('image_name', ''))

    def _against(self, server: model.Server) -> Iterator[str]:
        """Yield why a server can have no backup, although it can be evacuated."""
        flavor = server.flavor
        if flavor.get('ephemeral') or flavor.get('swap'):
            yield 'its flavor has an ephemeral disk or swap'
        specs = flavor.get('extra_specs') or {}
        for name in _BOUND:
            if specs.get(name) not in (None, 'no', 'false'):
                yield f'its flavor has {name}'
        for volume_id in server.volumes:
            volume = self._cloud.volumes.get(volume_id, {})
            if volume.get('multiattach'):
                yield f'volume {volume_id} is multi-attach'
            if volume.get('replication_status') == 'enabled':
                yield f'volume {volume_id} is mirrored'
        for port in self._cloud.ports.get(server.id, ()):
            kind, vif = port.get('binding:vnic_type'), port.get('binding:vif_type')
            if kind not in (None, 'normal') or vif not in (None, *_VIFS):
                yield f'port {port["id"]} is of type {kind} and bound as {vif}'

    def _stuck(self, server: model.Server) -> Iterator[str]:
        """Yield why a server could not be evacuated either."""
        if compute.VTPM in (server.flavor.get('extra_specs') or {}):
            yield 'its flavor has a virtual TPM'
        for volume_id in server.volumes:
            volume = self._cloud.volumes.get(volume_id)
            if volume is None:
                yield f'Cinder does not list its volume {volume_id}'
                continue
            backend = str(volume.get('os-vol-host-attr:host')).partition('#')[0]
            protocol = self._cloud.protocols.get(backend, 'unknown storage')
            if protocol != _CEPH:
                yield f'volume {volume_id} is on {backend}, which is not in Ceph: {protocol}'
