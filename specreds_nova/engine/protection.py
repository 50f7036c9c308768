# SPDX-License-Identifier: Apache-2.0
"""Whether a server would be protected now, and if not, why not."""

from collections.abc import Mapping, Sequence
from typing import Any

from oslo_config import cfg

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import interfaces
from specreds_nova.engine.detection import servers

# Hosts that are asked before it is given up to find one that can.
_ASKED = 3


class Protection:
    """Asks everybody who would have a say in a recovery. Changes nothing.

    :param gates: of servers
    """

    def __init__(self, compute: interfaces.Compute, volumes: interfaces.Volumes,
                 backups: interfaces.Backups,
                 gates: servers.Gates) -> None:
        self._compute = compute
        self._volumes = volumes
        self._backups = backups
        self._gates = gates

    def check(self, server_id: str) -> dict[str, Any]:
        """Tell it: ``protected``, ``reasons``, ``volumes``, ``destinations``.

        :raises exception.NotFound: there is no such server
        :raises exception.Unreachable: somebody does not answer
        """
        server = self._compute.server(server_id)
        if server is None:
            raise exception.NotFound(f'there is no server {server_id}')
        reasons = self._gates.reasons(server)
        volumes = self._eligible(server.volumes)
        reasons += [f'volume {volume}: {why}' for volume, found in volumes.items()
                    for why in found]
        destinations = self._compute.candidates(server)
        if not destinations:
            reasons.append('no other host has room for it')
        elif not reasons:
            reasons += self._asked(server_id, destinations[:_ASKED])
        return {'project': server.project, 'host': server.host, 'protected': not reasons,
                'reasons': reasons, 'volumes': volumes, 'destinations': destinations}

    def _eligible(self, volumes: Sequence[str]) -> Mapping[str, list[str]]:
        if not volumes:
            return {}
        try:
            return self._volumes.eligibility(volumes)
        except exception.Refused as exc:
            return {volume: [str(exc)] for volume in volumes}

    def _asked(self, server_id: str, hosts: Sequence[str]) -> list[str]:
        """Ask hosts whether they could; nothing if one of them says yes."""
        found: list[str] = []
        for host in hosts:
            try:
                told = self._backups.check(host, server_id)
            except (backup_errors.BackupError, exception.Unreachable) as exc:
                found.append(f'{host}: {exc}')
                continue
            if told['eligible']:
                return []
            found += [f'{host}: {reason}' for reason in told['reasons']]
        return found


def from_conf(conf: cfg.ConfigOpts) -> Protection:
    """Give it for the cloud of the configuration.

    :raises exception.Invalid: the configuration has no credentials
    """
    from specreds_nova.engine.clients import connect
    from specreds_nova.engine.detection import conf as detection_conf

    cloud = connect.Clients(conf)
    return Protection(cloud.compute, cloud.volumes, cloud.backups,
                      detection_conf.server_gates(conf.engine))
