# SPDX-License-Identifier: Apache-2.0
"""Nova and Placement, as the engine uses them."""

from collections.abc import Callable, Collection, Mapping
from concurrent import futures
import dataclasses
from typing import Any, TypeVar

from oslo_utils import timeutils

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.clients import destinations
from specreds_nova.engine.clients import facts as cloud_facts
from specreds_nova.engine.clients import groups
from specreds_nova.engine.clients import placement
from specreds_nova.engine.clients import rest

_T = TypeVar('_T')

# The newest microversion at which an evacuated server is started.
_VERSION = 'compute 2.94'
# The newest microversion with ``force``, which skips the checks of the destination.
_FORCING = 'compute 2.67'
# The state of an evacuation on which the destination's nova-compute has begun to work.
_CLAIMED = 'pre-migrating'
# The event of an evacuation in Nova's conductor.
_CONDUCTED = 'rebuild_server'
# States of evacuations that have neither ended nor failed.
_UNDER_WAY = ('accepted', 'pre-migrating', 'queued', 'preparing', 'running')
_EVACUATION = 'evacuation'
# States of moves that have not ended. In the first state, Nova's conductor has made the record,
# and the request may be in the queue of the source.
_REQUESTED = 'accepted'
_MOVING = (_REQUESTED, 'queued', 'preparing', 'running', 'pre-migrating', 'migrating',
           'post-migrating', 'finished')
# What Nova shows of moves, of a stopped server, and of a guest that is off.
_MOVED, _STOPPED, _OFF = ('MIGRATING', 'RESIZE'), 'stopped', 4
# Seconds for which an answer of Cinder on disks in RBD is valid, and further seconds for which it
# is used if Cinder does not answer.
_LASTING, _OUTDATED = 60.0, 3600.0
# Actions that change whether a server is to run, and how many actions are read to find one.
_POWER = ('stop', 'start', 'reboot', 'rebuild', 'evacuate', 'create', 'restore', 'unshelve',
          'resume', 'unpause', 'resetState')
_ACTIONS = 20
_PLACEMENT_VERSION = 'placement 1.36'
_CONFLICT = 409
# Threads that read the server groups; those that wait for the same reading occupy one each.
_READERS = 2
# Extra spec of flavors whose servers have a virtual TPM, which Nova's API does not evacuate.
VTPM = 'hw:tpm_version'
# Prefix of the reason with which Nova itself disables a service.
_BY_NOVA = 'AUTO:'


class Compute:
    """Nova and Placement. May be used by several threads.

    :param scheduler: Nova's scheduler; None to choose destinations by Placement alone
    :param beside: returns which of several hosts are in the cell of a host
    :param disks_in_rbd: returns whether Nova keeps disks of servers in RBD, as Cinder says
    """

    def __init__(self, session: rest.Session,
                 scheduler: destinations.Scheduler | None = None,
                 beside: Callable[[str, list[str]], list[str]] = lambda host, hosts: hosts,
                 disks_in_rbd: Callable[[], bool] = lambda: False) -> None:
        self._nova = rest.Service(session, 'Nova', 'compute', _VERSION)
        self._disks_in_rbd = cloud_facts.Cached(disks_in_rbd, _LASTING, _OUTDATED)
        self._facts = cloud_facts.Facts(self._nova)
        self._readers = futures.ThreadPoolExecutor(_READERS, 'server-groups')
        self._candidates = placement.Candidates(
            rest.Service(session, 'Placement', 'placement', _PLACEMENT_VERSION),
            self._facts)
        self._groups = groups.Groups(self._facts.hosts_of)
        self._destinations = destinations.Destinations(
            scheduler, self._candidates, self._facts, self._groups, beside)

    def warm_up(self) -> None:
        """Get a token, find the services, and read the facts that all recoveries need."""
        self._facts.warm_up()
        self._nova.get('/servers/detail', all_tenants='true', host='none', limit=1)
        self._candidates.warm_up()

    def servers(self, host: str) -> list[model.Server]:
        """Return the servers of a host."""
        shown, groups = self._with_groups(lambda: list(self._nova.pages(
            '/servers/detail', 'servers', all_tenants='true', host=host)))
        if not shown and (service := self._facts.services().get(host)):
            # Nova leaves out the servers of such a cell.
            _require_known(service)
        return [self._described(server, groups) for server in shown]

    def described(self, shown: Mapping[str, Any]) -> model.Server:
        """Return a server that Nova shows, without its server group."""
        return self._described(shown, {})

    def server(self, server_id: str) -> model.Server | None:
        """Return a server; None if it is deleted."""
        try:
            shown, groups = self._with_groups(
                lambda: self._nova.get(f'/servers/{server_id}')['server'])
        except exception.NotFound:
            return None
        if shown['status'] in ('DELETED', 'SOFT_DELETED'):
            return None
        if 'OS-EXT-SRV-ATTR:host' not in shown:
            raise exception.Unreachable(
                f'Nova does not show the host of server {server_id}: the database of its cell '
                f'does not answer')
        return self._described(shown, groups)

    def _with_groups(self, read: Callable[[], _T]
                     ) -> tuple[_T, Mapping[str, Mapping[str, Any]]]:
        """Return what a function reads, and the server groups, which are read at the same time."""
        known = self._facts.groups_at_hand()
        if known is not None:
            return read(), known
        groups = self._readers.submit(self._facts.groups)
        return read(), groups.result()

    def _described(self, shown: Mapping[str, Any],
                   groups: Mapping[str, Mapping[str, Any]]) -> model.Server:
        server, disks = described(shown, groups), _disks(shown)
        server = dataclasses.replace(server, aggregates=self.aggregates(server.host))
        # A guess would leave a disk without a fence.
        if not disks or not self._disks_in_rbd.get():
            return server
        return dataclasses.replace(server, disks=disks)

    def candidates(self, server: model.Server, placed: Mapping[str, str] | None = None,
                   avoid: Collection[str] = ()) -> list[str]:
        """Return other hosts that have room for a server and may run it, the best first.

        Nova's scheduler selects them for the stored request spec of the server. If it does not
        answer, they follow from Placement's allocation candidates, traits, availability zone and
        aggregates. The server group and the state of services count in both cases.

        :param placed: by server, the host of a backup that Nova does not know of yet
        :param avoid: hosts that are left out
        """
        return self._destinations.hosts(server, placed or {}, avoid)

    def suits_group(self, server: model.Server, host: str, placed: Mapping[str, str]) -> bool:
        """Return whether the anti-affinity of a server's group allows a host."""
        return host not in groups.forbidden(server, self._groups.others(server, placed))

    def permits(self, server: model.Server, host: str) -> bool:
        """Return whether Nova's policies allow a server on a host, its group aside."""
        return self._destinations.permits(server, host)

    def immovable(self, server: model.Server) -> str | None:
        """Return why Nova would evacuate a server to no host; None if it may."""
        if VTPM in (server.flavor.get('extra_specs') or {}):
            return 'Nova evacuates no server with a virtual TPM, whose state is on its host'
        return self._groups.immovable(server)

    def force_down(self, host: str, down: bool) -> bool:
        """Force a host down in Nova, or take that back; return False if Nova refuses."""
        service = self._facts.services().get(host)
        if service is None:
            self._facts.changed()
            service = self._facts.services().get(host)
        if service is None:
            return False
        if down and service.get('forced_down'):
            # Of thousands of servers of a rack, each asks for it. If that was taken back a moment
            # ago, Nova refuses to evacuate the server, and the engine asks again.
            return True
        _require_known(service)
        try:
            self._nova.ask('PUT', f'/os-services/{service["id"]}', {'forced_down': down})
        except (exception.Refused, exception.NotFound):
            return False
        self._facts.forced_down(host, down)
        return True

    def service(self, host: str) -> Mapping[str, Any]:
        """Return ``up``, ``enabled``, ``forced_down`` and ``updated`` (seconds) of nova-compute.

        A service that Nova has disabled by itself is ``enabled``: only operators count.
        """
        services = self._nova.get('/os-services', host=host, binary='nova-compute')['services']
        if not services:
            return {}
        return _state_of(cloud_facts.current(services))

    def service_at_hand(self, host: str) -> Mapping[str, Any]:
        """Return the same by a list of all services that is some seconds old."""
        service = self._facts.services().get(host)
        return {} if service is None else _state_of(service)

    def services(self) -> Mapping[str, Mapping[str, Any]]:
        """Return all services nova-compute by host, as in Nova's API."""
        return self._facts.services()

    def places(self, host: str) -> tuple[str, ...]:
        """Return the availability zone and the aggregates of a host, in words."""
        zone = self._facts.services().get(host, {}).get('zone')
        zones = (f'availability zone {zone}',) if zone else ()
        return zones + tuple(f'aggregate {aggregate["name"]}'
                             for aggregate in self._facts.aggregates(host))

    def aggregates(self, host: str) -> tuple[Mapping[str, Any], ...]:
        """Return the aggregates of a host."""
        return tuple(self._facts.aggregates(host))

    def all_places(self) -> set[str]:
        """Return all availability zones and aggregates with a host, in words."""
        return {place for host in self._facts.services() for place in self.places(host)}

    def evacuate(self, server_id: str, host: str | None, force: bool = False) -> None:
        """Have Nova evacuate a server. May be repeated.

        :param host: destination; None to let Nova choose it
        :param force: skip the checks of the destination, because the backup runs there
        :raises exception.Refused: Nova refuses
        """
        body: dict[str, Any] = {} if host is None else {'host': host}
        if force and host is not None:
            self._act(server_id, {'evacuate': body | {'force': True}}, _FORCING)
        else:
            self._act(server_id, {'evacuate': body})

    def evacuation(self, server_id: str) -> model.Evacuation | None:
        """Return Nova's evacuation of a server that is under way; None if there is none.

        The record of an evacuation whose nova-compute has ended is under way for ever, so that one
        counts only if nothing newer was noted. Nova may go on with an older record than the latest
        (``Migration.get_by_instance_and_status`` in its conductor).
        """
        migrations = self._nova.get('/os-migrations', instance_uuid=server_id,
                                    migration_type=_EVACUATION)['migrations']
        latest = max((str(migration['created_at']) for migration in migrations), default='')
        under_way = [migration for migration in migrations
                     if migration['status'] in _UNDER_WAY and _noted(migration) >= latest]
        newest = max(under_way, key=_noted, default=None)
        if newest is None:
            return None
        return model.Evacuation(newest['dest_compute'] or '', newest['status'] == _CLAIMED,
                                _time(_noted(newest)))

    def move(self, server: model.Server) -> model.Move | None:
        """Return the migration or resize of a server that is under way; None if there is none."""
        migrations = self._nova.get('/os-migrations', instance_uuid=server.id)['migrations']
        moves = [migration for migration in migrations
                 if migration['migration_type'] != _EVACUATION
                 and migration['status'] in _MOVING]
        newest = max(moves, key=lambda migration: str(migration['created_at']), default=None)
        if newest is None or not newest['dest_compute']:
            return None
        other = (newest['source_compute'] if newest['dest_compute'] == server.host
                 else newest['dest_compute'])
        return model.Move(other, newest['status'] != _REQUESTED)

    def evacuation_request(self, server_id: str) -> str | None:
        """Return what Nova's conductor has done about the latest request for a server.

        The conductor finishes its event of the request with an error, whatever the error was, but
        changes the state of the server after a few errors only
        (``ComputeTaskManager.rebuild_instance``).

        :returns: ``model.GIVEN_UP``, ``model.PENDING``, or None if the latest request was not an
            evacuation
        """
        actions = f'/servers/{server_id}/os-instance-actions'
        try:
            latest = next((action for action in self._nova.get(
                actions, limit=_ACTIONS)['instanceActions']
                if action['action'] in _POWER and action['action'] != 'resetState'), None)
            if latest is None or latest['action'] != 'evacuate':
                return None
            events = self._nova.get(f'{actions}/{latest["request_id"]}')['instanceAction'].get(
                'events', ())
        except exception.NotFound:
            return None
        ended = any(event['event'] == _CONDUCTED and event.get('result') == 'Error'
                    for event in events)
        return model.GIVEN_UP if ended else model.PENDING

    def reset(self, server_id: str) -> None:
        """Set the state of a server in Nova to active."""
        self._act(server_id, {'os-resetState': {'state': 'active'}})

    def reboot(self, server_id: str) -> None:
        """Have Nova reboot a server on its host, hard.

        :raises exception.Refused: Nova refuses
        """
        self._act(server_id, {'reboot': {'type': 'HARD'}})

    def stop(self, server_id: str) -> None:
        """Have Nova stop a server.

        :raises exception.Refused: Nova refuses
        """
        self._act(server_id, {'os-stop': None})

    def pause(self, server_id: str) -> None:
        """Have Nova pause a server.

        :raises exception.Refused: Nova refuses
        """
        self._act(server_id, {'pause': None})

    def delete(self, server_id: str) -> None:
        """Have Nova delete a server. May be repeated, also if the server is gone.

        Nova itself deletes it if its host is down for Nova. A deletion that was requested before
        is left to a host that is up.

        :raises exception.Refused: Nova refuses
        """
        try:
            self._nova.ask('POST', f'/servers/{server_id}/action', {'forceDelete': None})
        except exception.NotFound:
            return

    def runs(self, server_id: str) -> bool:
        """Return whether the domain of a server runs, as its host reports.

        :raises exception.Refused: Nova refuses to report it
        """
        try:
            self._nova.get(f'/servers/{server_id}/diagnostics')
        except exception.Refused as exc:
            # Any other refusal says nothing about the domain.
            if getattr(exc.__cause__, 'status', None) != _CONFLICT:
                raise
            return False
        return True

    def stopped_by_itself(self, server_id: str, since: float | None = None) -> bool:
        """Return whether Nova itself, not a user, has stopped a server.

        Other actions may have followed, such as the detachment of a volume.

        :param since: time in seconds since the epoch, after which that stop has to be the only
            change of the server's power; None for any time
        """
        try:
            actions = self._nova.get(f'/servers/{server_id}/os-instance-actions',
                                     limit=_ACTIONS)['instanceActions']
        except exception.NotFound:
            return False
        actions = [action for action in actions if action['action'] in _POWER]
        if not actions or actions[0]['action'] != 'stop' or actions[0]['user_id']:
            return False
        return since is None or [_started(action) > since for action in actions[:2]] in (
            [True], [True, False])

    def _act(self, server_id: str, action: Mapping[str, Any],
             version: str | None = None) -> None:
        try:
            self._nova.ask('POST', f'/servers/{server_id}/action', action, version=version)
        except exception.NotFound as exc:
            raise exception.Refused(str(exc)) from exc


def _state_of(service: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the state of a service for gates.

    :raises exception.Unreachable: the database of its cell does not answer Nova
    """
    _require_known(service)
    return {'up': service['state'] == 'up', 'enabled': enabled(service),
            'forced_down': bool(service.get('forced_down')), 'updated': updated(service)}


def _require_known(service: Mapping[str, Any]) -> None:
    """Raise an error if Nova does not know the state of a service.

    :raises exception.Unreachable: the database of its cell does not answer Nova
    """
    if not cloud_facts.known(service):
        raise exception.Unreachable(
            f'Nova does not know nova-compute of {service["host"]}: the database of its cell does '
            f'not answer')


def enabled(service: Mapping[str, Any]) -> bool:
    """Return whether no operator has disabled a service.

    Nova disables it by itself when libvirt is lost there, which often precedes the host's death.
    """
    return service['status'] == 'enabled' or str(
        service.get('disabled_reason') or '').startswith(_BY_NOVA)


def _started(action: Mapping[str, Any]) -> float:
    """Return when an action began, in seconds since the epoch."""
    return _time(action['start_time'])


def updated(service: Mapping[str, Any]) -> float:
    """Return when a service last reported to Nova, in seconds since the epoch; 0 for never."""
    updated_at = service.get('updated_at')
    return _time(updated_at) if updated_at else 0.0


def _time(text: str) -> float:
    """Return a time of Nova's in seconds since the epoch."""
    return timeutils.parse_isotime(text + 'Z').timestamp()


def _noted(migration: Mapping[str, Any]) -> str:
    """Return when Nova has noted something of a migration last."""
    return str(migration.get('updated_at') or migration['created_at'])


def _disks(shown: Mapping[str, Any]) -> tuple[str, ...]:
    """Return Nova's names of a server's disks that are no volumes."""
    flavor = shown['flavor']
    present = {'disk': bool(shown['image']), 'disk.eph0': bool(flavor.get('ephemeral')),
               'disk.swap': bool(flavor.get('swap'))}
    return tuple(name for name, exists in present.items() if exists)


def described(shown: Mapping[str, Any], groups: Mapping[str, Mapping[str, Any]]
              ) -> model.Server:
    """Return a server.

    :param shown: as Nova shows it
    :param groups: by server: its server group
    """
    return model.Server(
        id=shown['id'], name=shown['name'], project=shown['tenant_id'],
        host=shown['OS-EXT-SRV-ATTR:host'] or '', status=shown['status'],
        task=shown['OS-EXT-STS:task_state'], locked=bool(shown.get('locked')),
        zone=shown.get('OS-EXT-AZ:availability_zone') or None, flavor=shown['flavor'],
        volumes=tuple(volume['id'] for volume in shown['os-extended-volumes:volumes_attached']),
        metadata=shown.get('metadata') or {}, group=groups.get(shown['id']),
        image=shown['image']['id'] if shown['image'] else None, macs=_macs(shown),
        off=_is_off(shown))


def _is_off(shown: Mapping[str, Any]) -> bool:
    """Return whether a server was stopped when Nova began to move it."""
    if shown['status'] == 'VERIFY_RESIZE':
        return bool(shown.get('OS-EXT-STS:power_state') == _OFF)
    return shown['status'] in _MOVED and shown.get('OS-EXT-STS:vm_state') == _STOPPED


def _macs(shown: Mapping[str, Any]) -> tuple[str, ...]:
    # A floating IP is listed with the port of its fixed one.
    return tuple(sorted({str(address['OS-EXT-IPS-MAC:mac_addr'])
                         for addresses in (shown.get('addresses') or {}).values()
                         for address in addresses}))
