# SPDX-License-Identifier: Apache-2.0
"""The check whether a backup of a server could be started at the moment."""

from collections.abc import Mapping, Sequence
import contextlib
from typing import Any

from oslo_config import cfg

from specreds_nova.engine import exception
from specreds_nova.engine import interfaces
from specreds_nova.engine import model
from specreds_nova.engine import refusals
from specreds_nova.engine.detection import servers

# What a server would get if its host failed.
SPECULATIVE, EVACUATED, FAILED, NONE = 'speculative', 'evacuated', 'failed', 'none'

_Answer = tuple[str, refusals.Answer]


class Protection:
    """The check, which asks all services that a recovery needs. Changes nothing.

    :param gates: the gates of servers
    :param unfenced: servers whose host cannot be shut out are evacuated all the same
    """

    def __init__(self, compute: interfaces.Compute, volumes: interfaces.Volumes,
                 backups: interfaces.Backups,
                 gates: servers.Gates, *, unfenced: bool = False) -> None:
        self._compute = compute
        self._volumes = volumes
        self._backups = backups
        self._gates = gates
        self._unfenced = unfenced

    def check(self, server_id: str) -> dict[str, Any]:
        """Return the answer of :class:`specreds_nova.engine.api.protection.Protection`.

        :raises exception.NotFound: the server does not exist
        :raises exception.Unreachable: a service does not answer
        """
        server = self._compute.server(server_id)
        if server is None:
            raise exception.NotFound(f'there is no server {server_id}')
        reasons = self._gates.reasons(server)
        gated = bool(reasons)
        eligible = self._eligible(server)
        volumes = {volume: list(eligible[volume].reasons) for volume in server.volumes
                   if volume in eligible}
        against = [f'{"volume" if each in volumes else "disk"} {each}: {reason}'
                   for each, its in eligible.items() for reason in its.reasons]
        if reason := server.unversioned():
            against.append(reason)
        reasons += against
        destinations = self._compute.candidates(server)
        answers = [] if gated else self._answers(server_id, destinations)
        if not destinations:
            reasons.append('no other host has room for it')
        elif not reasons:
            reasons += _refusals(answers)
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
        if gated:
            recovery = NONE
        elif not reasons:
            recovery = SPECULATIVE
        else:
            recovery = FAILED if stays else EVACUATED
        return {'project': server.project, 'host': server.host, 'protected': not reasons,
                'recovery': recovery,
                'reasons': reasons, 'volumes': volumes, 'destinations': destinations}

    def _answers(self, server_id: str, hosts: Sequence[str]) -> Sequence[_Answer]:
        """Return the answers of hosts, up to that of a host that can run the backup."""
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
            return dict.fromkeys((*server.volumes, *server.superposed_disks()),
                                 model.Eligibility((str(exc),)))


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


def from_conf(conf: cfg.ConfigOpts) -> Protection:
    """Return the check for the configured cloud.

    :raises exception.Invalid: the configuration has no credentials
    """
    from specreds_nova.engine.clients import connect
    from specreds_nova.engine.detection import conf as detection_conf

    clients = connect.Clients(conf, scheduled=False)
    return Protection(clients.compute, clients.volumes, clients.backups,
                      detection_conf.server_gates(conf.engine),
                      unfenced=conf.engine.evacuate_unfenced)
