# SPDX-License-Identifier: Apache-2.0
"""Check that Neutron's drivers let servers of this host have backups, and run backups."""

from collections.abc import Iterator, Mapping, Sequence
import socket
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import exceptions
from keystoneauth1 import loading
from oslo_config import cfg

from specreds_nova.status import files
from specreds_nova.status import findings

_GROUP = 'neutron'
_AGENT = 'Open vSwitch agent'
_TIMEOUT_S = 10


def agents(config: files.Files) -> Iterator[findings.Finding]:
    """Check the network agents of all hosts, as Neutron knows them."""
    host = config.get('DEFAULT', 'host') or socket.gethostname()
    try:
        known = _agents(str(config))
    except (exceptions.ClientException, cfg.Error) as exc:
        yield findings.warning(f'{config}: Neutron does not list its agents, so that its drivers '
                               f'are not checked: {exc}')
        return
    yield from judge(host, known)


def judge(host: str, known: Sequence[Mapping[str, Any]]) -> Iterator[findings.Finding]:
    """Check the network agents, of which a box has to have the right ones.

    :param host: this host's name
    :param known: the agents as Neutron's API returns them
    """
    mine = [agent for agent in known if agent['host'] == host]
    hybrid = {agent['host']: bool(agent['configurations'].get('ovs_hybrid_plug'))
              for agent in known if agent['agent_type'] == _AGENT}
    if host not in hybrid:
        others = ', '.join(sorted(agent['agent_type'] for agent in mine)) or 'no agent'
        yield findings.failure(
            f'Neutron has {others} and no {_AGENT} on {host}: servers have no backups here, and '
            f'those of this host are fenced and evacuated')
        return
    if not all(agent['alive'] for agent in mine if agent['agent_type'] == _AGENT):
        yield findings.warning(f'the {_AGENT} on {host} is down: no backup can start here')
    if different := sorted(other for other, plug in hybrid.items() if plug != hybrid[host]):
        yield findings.warning(
            f'the {_AGENT} on {", ".join(different)} has another firewall_driver than that on '
            f'{host}: the servers of either have no backups on the other')


def _agents(path: str) -> list[dict[str, Any]]:
    """Return the agents that Neutron knows.

    :param path: a nova.conf with group ``neutron``
    """
    conf = cfg.ConfigOpts()
    conf(args=[], default_config_files=[path])
    loading.register_auth_conf_options(conf, _GROUP)
    loading.register_session_conf_options(conf, _GROUP)
    loading.register_adapter_conf_options(conf, _GROUP)
    auth = loading.load_auth_from_conf_options(conf, _GROUP)
    session = loading.load_session_from_conf_options(conf, _GROUP, auth=auth, timeout=_TIMEOUT_S)
    group = conf[_GROUP]
    api = adapter.Adapter(session, service_type='network', region_name=group.region_name,
                          interface=(group.valid_interfaces or [None])[0],
                          endpoint_override=group.endpoint_override)
    listed: list[dict[str, Any]] = api.get('/v2.0/agents').json()['agents']
    return listed
