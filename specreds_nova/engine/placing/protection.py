# SPDX-License-Identifier: Apache-2.0
"""The check whether a backup of a server could be started at the moment."""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import time
from typing import TypedDict

from oslo_config import cfg

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine import modes
from specreds_nova.engine.clients import backups as backup_clients
from specreds_nova.engine.clients import compute as nova_clients
from specreds_nova.engine.clients import volumes as volume_clients
from specreds_nova.engine.placing import judgement
from specreds_nova.engine.recovery import refusals
from specreds_nova.engine.store import store as stores
from specreds_nova.engine.suspicion import conf as detection_conf
from specreds_nova.engine.suspicion import gates as host_gates
from specreds_nova.engine.suspicion import servers

_Answer = tuple[str, refusals.Answer]


class Hosts:
    """What engines have recorded of hosts, and what Nova says of them.

    :param gates: the gates of hosts
    :param graces: seconds for which silence means nothing after a goodbye, by its kind
    :param now: returns the seconds since the epoch
    """

    def __init__(self, store: stores.Store, compute: nova_clients.Compute, gates: host_gates.Gates,
                 graces: Mapping[str, float], *,
                 now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._compute = compute
        self._gates = gates
        self._graces = graces
        self._now = now

    def look(self, name: str) -> tuple[list[str], list[str]]:
        """Return what keeps a server of a host from being protected.

        Each reason names the host: tenants are not told of hosts.

        :returns: reasons for which engines do nothing if the host falls silent; and whether they
            recover its servers already
        :raises exception.Unreachable: Nova or the database does not answer
        """
        host = self._store.host(name)
        under_way = [] if host.state == model.TRUSTED else [f'{name} is {host.state}']
        reasons = [reason if name in reason else f'{name}: {reason}'
                   for reason in dict.fromkeys([*self._closed(host), *self._silence(host)])]
        return reasons, under_way

    def _closed(self, host: model.Host) -> list[str]:
        """Return the reasons of closed gates; an engine has recorded those that only it knows."""
        service = self._compute.service_at_hand(host.name)
        if host.state != model.TRUSTED:
            # Engines have forced it down themselves.
            service = {**service, 'forced_down': False}
        facts = host_gates.Facts(
            host.name, service=service, flaps=host.flaps,
            mode=modes.mode(self._store.modes(), host.name, self._compute.places(host.name),
                            self._now()),
            word=host.word == model.SUSPECT, sentinel=host.sentinel, shows=host.shows)
        return [*self._gates.reasons(facts),
                *(host.held if host.shown == model.HELD else ())]

    def _silence(self, host: model.Host) -> list[str]:
        """Return why the silence of a host would mean nothing."""
        if host.word == model.SUSPECT:
            return []
        if not host.generation:
            return [judgement.never_heard(host.name)]
        left = (host.goodbye_at or 0.0) + self._graces.get(host.goodbye or '', 0.0) - self._now()
        if host.goodbye is None or left <= 0.0:
            return []
        return [f'{host.name} has said goodbye ({host.goodbye}): its silence means nothing for '
                f'{left:.0f} s more']


class Answer(TypedDict):
    """Whether a backup of a server could be started now.

    :ivar name: name of the server
    :ivar project: project of the server
    :ivar host: host of the server
    :ivar recovery: the recovery that the server would get: ``speculative``, ``evacuated`` (fenced
        and evacuated by Nova), ``failed`` (Nova cannot evacuate it) or ``none``
    :ivar rules: the rules of the server that count, in words
    :ivar reasons: all reasons why the server is not protected; empty if it is
    :ivar volumes: by id, the reasons why a volume cannot be superposed; empty if it can
    :ivar destinations: hosts that have room for the backup, the best first
    """

    name: str
    project: str
    host: str
    protected: bool
    recovery: str
    rules: Sequence[str]
    reasons: Sequence[str]
    volumes: Mapping[str, Sequence[str]]
    destinations: Sequence[str]


class Protection:
    """The check, which asks all services that a recovery needs. Changes nothing.

    :param gates: the gates of servers
    :param unfenced: servers whose host cannot be shut out are evacuated all the same
    """

    def __init__(self, compute: nova_clients.Compute, volumes: volume_clients.Volumes,
                 backups: backup_clients.Backups,
                 gates: servers.Gates, hosts: Hosts, *, unfenced: bool = False) -> None:
        self._compute = compute
        self._volumes = volumes
        self._backups = backups
        self._gates = gates
        self._hosts = hosts
        self._unfenced = unfenced

    def places(self) -> set[str]:
        """Return all availability zones and aggregates with a host, in words.

        :raises exception.Unreachable: Nova does not answer
        """
        return self._compute.all_places()

    def check(self, server_id: str) -> Answer:
        """Return whether a backup of a server could be started now, and why not.

        :raises exception.NotFound: the server does not exist
        :raises exception.Unreachable: a service does not answer
        """
        server = self._compute.server(server_id)
        if server is None:
            raise exception.NotFound(f'there is no server {server_id}')
        held, under_way = self._hosts.look(server.host) if server.host else ([], [])
        reasons, shut = judgement.gated_by(self._gates, server)
        gated = bool(held or shut)
        reasons += held
        eligible = self._eligible(server)
        volumes = {volume: list(eligible[volume].reasons) for volume in server.volumes
                   if volume in eligible}
        against = [f'{"volume" if each in volumes else "disk"} {each}: {reason}'
                   for each, its in eligible.items() for reason in its.reasons]
        reasons += against
        destinations = self._compute.candidates(server)
        answers = [] if gated else self._answers(server_id, destinations)
        if not destinations:
            reasons.append('no other host has room for it')
        elif not reasons:
            reasons += _refusals(answers) or _left_out(server, answers)
        stays = False
        if reasons and not gated:
            if immovable := self._immovable(server, answers):
                reasons.append(immovable)
            obstacles = refusals.of_volumes(eligible)
            if against and not self._unfenced:
                obstacles += [f'volume {volume}: {server.host} cannot be shut out of it'
                              for volume, its in eligible.items() if not its.fenceable]
            reasons += obstacles
            stays = bool(immovable or obstacles or not destinations)
        recovery = judgement.outcome(gated=gated, against=bool(reasons), stays=stays)
        reasons += under_way
        return {'name': server.name, 'project': server.project, 'host': server.host,
                'protected': not reasons, 'recovery': recovery,
                'rules': server.rules.in_words(self._gates.by_default),
                'reasons': reasons, 'volumes': volumes, 'destinations': destinations}

    def _answers(self, server_id: str, hosts: Sequence[str]) -> Sequence[_Answer]:
        """Return the answers of hosts, up to the first host that can run the backup."""
        answers: list[_Answer] = []
        for host, answer in refusals.ask(self._backups, hosts, server_id):
            answers.append((host, answer))
            if isinstance(answer, Mapping) and answer['eligible']:
                break
        return answers

    def _immovable(self, server: model.Server, answers: Sequence[_Answer]) -> str | None:
        """Return why Nova would refuse to evacuate a server; None if it would not."""
        if reason := self._compute.immovable(server):
            return reason
        with contextlib.suppress(exception.Unreachable):
            return refusals.reason(answers)
        return None

    def _eligible(self, server: model.Server) -> Mapping[str, model.Eligibility]:
        try:
            return self._volumes.eligibility(server)
        except exception.Refused as exc:
            return dict.fromkeys((*server.volumes, *server.disk_images()),
                                 model.Eligibility((str(exc),)))


def _left_out(server: model.Server, answers: Sequence[_Answer]) -> list[str]:
    """Return why the host that can run a backup would lack a disk of it."""
    superposed = set(server.disk_images())
    return [f'{host}: Nova keeps {", ".join(sorted(left))} in RBD, which Cinder does not superpose'
            for host, answer in answers if isinstance(answer, Mapping) and answer['eligible']
            and (left := set(answer.get('disks', ())) - superposed)]


def _refusals(answers: Sequence[_Answer]) -> list[str]:
    """Return why none of the hosts can run the backup; nothing if one of them can."""
    reasons: list[str] = []
    for host, answer in answers:
        if not isinstance(answer, Mapping):
            reasons.append(f'{host}: {answer}')
        elif answer['eligible']:
            return []
        else:
            reasons += [f'{host}: {reason}' for reason in answer['reasons']]
    return reasons


def hosts(conf: cfg.ConfigOpts, store: stores.Store, compute: nova_clients.Compute) -> Hosts:
    """Return the hosts of the configured cloud."""
    return Hosts(store, compute, detection_conf.host_gates(conf.engine),
                 detection_conf.monitor_settings(conf.engine).graces)
