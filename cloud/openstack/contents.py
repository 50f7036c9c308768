# SPDX-License-Identifier: Apache-2.0
"""List the servers of a cloud, and its volumes in superposition."""

from typing import Any

from keystoneauth1 import exceptions as keystone_exceptions
from keystoneauth1 import session as keystone_session

from cloud import commands
from cloud.openstack import cinder
from cloud.openstack import nova


def lines(session: keystone_session.Session) -> list[str]:
    """Return a line for each server and superposition.

    :param session: the administrator's
    :raises CloudError: an API does not answer
    """
    try:
        servers = nova.Api(session).servers()
        superpositions = cinder.Api(session).superpositions()
    except keystone_exceptions.ClientException as exc:
        raise commands.CloudError('what is in the cloud cannot be told: '
                                  + str(exc).split('\n')[0]) from exc
    names = {server['id']: str(server['name']) for server in servers}
    return [*map(_server, servers),
            *(_superposition(superposition, names) for superposition in superpositions)]


def _server(server: dict[str, Any]) -> str:
    addresses = [item['addr'] for network in server['addresses'].values() for item in network]
    task = server['OS-EXT-STS:task_state']
    return ' '.join((f'server {server["name"]}: {server["status"]}{f" ({task})" if task else ""}',
                     f'on {server["OS-EXT-SRV-ATTR:host"] or "no host"}', *addresses))


def _superposition(superposition: dict[str, Any], names: dict[str, str]) -> str:
    server = superposition['server_id']
    owner = f' of {names.get(server, server)}' if server else ''
    return (f'superposition {superposition["id"]}: {superposition["state"]}, '
            f'{len(superposition["volume_ids"])} volumes{owner}')
