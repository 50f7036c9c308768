# SPDX-License-Identifier: Apache-2.0
"""What each server would get if its host failed, by what the APIs of a cloud show of it.

The gates and the classes are as in ``openstack speculative server check``
(:mod:`specreds_nova.engine.placing.judgement`). What only hosts know is left out: the features of
images, and whether another host has a fitting CPU.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
import dataclasses

from specreds_nova.engine import model
from specreds_nova.engine.clients import compute
from specreds_nova.engine.placing import judgement
from specreds_nova.engine.placing import order
from specreds_nova.engine.recovery import settings
from specreds_nova.engine.suspicion import servers as gates
from specreds_nova.preflight import reading
from specreds_nova.preflight import room

# Extra specs of flavors with which a server is bound to its host.
_BOUND = ('pci_passthrough:alias', 'accel:device_profile', 'hw:cpu_realtime')
_VIFS = ('ovs', 'unbound')
# What needs room on another host.
MOVED = (judgement.SPECULATIVE, judgement.EVACUATED)


@dataclasses.dataclass(frozen=True)
class Judged:
    """A server, and what it would get.

    :ivar recovery: ``speculative``, ``evacuated``, ``failed`` or ``none``
    :ivar image: the name of the image from which its volume was made, or the id of its own
    :ivar without_room: the fewest hosts whose failure leaves it without a host; none if any one
        or two hosts may fail
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
    without_room: tuple[str, ...] = ()


class Judge:
    """Judges the servers of a cloud.

    :param closed: the gates of servers
    :param heard: the hosts of which engines have heard; None before there are engines
    """

    def __init__(self, cloud: reading.Cloud, closed: gates.Gates,
                 heard: Collection[str] | None = None) -> None:
        self._cloud = cloud
        self._gates = closed
        self._heard = heard

    def look(self, server: model.Server) -> Judged:
        """Return what a server would get."""
        closed, gated = judgement.gated_by(self._gates, server)
        if not server.host:
            gated, closed = True, [*closed, 'it is on no host']
        elif self._heard is not None and server.host not in self._heard:
            gated, closed = True, [*closed, judgement.never_heard(server.host)]
        against, stuck = [*self._against(server)], [*self._stuck(server)]
        recovery = judgement.outcome(gated=gated, against=bool(closed or against or stuck),
                                      stays=bool(stuck))
        return Judged(
            server.id, server.name, server.project, server.host,
            str(server.flavor.get('original_name', '')), self._image(server),
            tuple(str(aggregate['name'])
                  for aggregate in self._cloud.aggregates.get(server.host, ())),
            recovery, (*closed, *against, *stuck))

    def look_at_all(self, ask: Callable[[Mapping[str, str]], reading.Thing], *, pairs: bool
                    ) -> tuple[list[Judged], room.Room]:
        """Return what each server would get and whether it would find room; and that room.

        :param ask: returns Placement's allocation candidates for a query
        :param pairs: also let two hosts fail at once
        """
        judged = [self.look(server) for server in self._cloud.servers]
        by_host = self._to_move(judged)
        available = room.Room(self._cloud, [server for its in by_host.values() for server in its],
                              ask)
        without = available.without(by_host, pairs=pairs)
        return [dataclasses.replace(each, without_room=without.get(each.id, ()))
                for each in judged], available

    def _to_move(self, judged: Collection[Judged]) -> dict[str, list[model.Server]]:
        """Return the servers of each host that need another one, those with priority first."""
        moved = {each.id for each in judged if each.recovery in MOVED}
        by_host: dict[str, list[model.Server]] = {}
        for server in sorted(self._cloud.servers, key=lambda server: (
                -order.priority(server, settings.Settings.tenant_priority_max), server.name)):
            if server.id in moved:
                by_host.setdefault(server.host, []).append(server)
        return by_host

    def _image(self, server: model.Server) -> str:
        if server.image is not None:
            return server.image
        volume = self._cloud.volumes.get(server.volumes[0], {}) if server.volumes else {}
        return str((volume.get('volume_image_metadata') or {}).get('image_name', ''))

    def _against(self, server: model.Server) -> Iterator[str]:
        """Yield why a server can have no backup, although it can be evacuated."""
        flavor = server.flavor
        if (flavor.get('ephemeral') or flavor.get('swap')) and not server.disks:
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
            if protocol != reading.CEPH:
                yield f'volume {volume_id} is on {backend}, which is not in Ceph: {protocol}'
